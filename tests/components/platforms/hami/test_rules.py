"""What HAMi can't work with is refused before a change, with what its source says."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.findings import Surroundings
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import INSTALLERS
from tests.proofs.platform.clusters import cluster, pool
from tests.resolved import platform_of


@pytest.mark.promise("HAMi is refused with MIG layouts and with drivers that it doesn't support.")
@pytest.mark.parametrize(
    ("sections", "place", "reason"),
    [
        ({"pools": pool(mig={"1g.5gb": 7})}, "pools[0].mig", "MIG devices itself"),
        (
            {
                "driver": {"source": "daemonset", "version": "595.91.07"},
                "driverInstaller": {"images": INSTALLERS},
            },
            "driver.source",
            "a driver of the host",
        ),
        (
            {"driver": {"source": "package", "version": "418.87.00"}},
            "driver.version",
            "440 or later",
        ),
        (
            {"registry": {"mirror": "registry.example.com/gpu"}},
            "hami.kubeSchedulerVersion",
            "kube-scheduler's image",
        ),
        (
            {"scheduling": {"limits": [{"namespace": "team", "maxCards": 1}]}},
            "scheduling.limits",
            "HAMi's webhook",
        ),
    ],
)
def test_a_stack_file_that_hami_can_not_serve_is_refused(
    sections: dict[str, Any], place: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster("hami", **sections)
    assert [each.place for each in raised.value.faults if reason in each.wanted] == [place]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"devicePlugin": {"enabled": False}}, "devicePlugin.enabled"),
        ({"scheduler": {"admissionWebhook": {"enabled": False}}}, "admissionWebhook.enabled"),
        ({"scheduler": {"kubeScheduler": {"enabled": False}}}, "kubeScheduler.enabled"),
        ({"mockDevicePlugin": {"enabled": True}}, "mockDevicePlugin.enabled"),
        ({"resourceName": "example.com/gpu"}, "resourceName"),
        ({"dra": {"enabled": True}}, "dra"),
        ({"devicePlugin": {"deviceSplitCount": 4}}, "devicePlugin.deviceSplitCount"),
        ({"devicePlugin": {"deviceSplitcount": 4}}, "devicePlugin.deviceSplitcount"),
        ({"devicePlugin": {"deviceCoreScaling": "2"}}, "devicePlugin.deviceCoreScaling"),
    ],
)
def test_values_that_break_hami_or_have_a_setting_are_refused(
    values: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster("hami", hami={"extraValues": values})
    (fault,) = raised.value.faults
    assert fault.place.endswith(place)


def test_a_driver_older_than_hami_supports_is_refused_in_the_cluster() -> None:
    platform = platform_of(cluster("hami"))
    seen = Surroundings(version="v1.36.3", drivers={"gpu-1": "430.50", "gpu-2": "580.65.06"})
    hosts = {"gpu-3": HostFacts(driver="418.87.00"), "gpu-2": HostFacts(driver="595.91.07")}
    found = platform.validate_cluster(seen, hosts)
    assert [each.place for each in found] == ["node gpu-1", "host gpu-3"]


@pytest.mark.parametrize(
    ("declared", "served", "refused"),
    [
        ("v1.36.3", "v1.36.1", False),
        ("v1.35.4", "v1.36.3", False),
        ("v1.34.4", "v1.36.3", True),
        ("v1.37.2", "v1.36.3", True),
        ("v1.37.2", "", False),
    ],
)
def test_a_kube_scheduler_that_does_not_go_with_the_cluster_is_refused(
    declared: str, served: str, *, refused: bool
) -> None:
    platform = platform_of(cluster("hami", hami={"kubeSchedulerVersion": declared}))
    found = platform.validate_cluster(Surroundings(version=served), {})
    wanted = ["hami.kubeSchedulerVersion"] if refused else []
    assert [each.place for each in found] == wanted


def test_a_pool_without_gpus_may_stand_beside() -> None:
    pools = [*pool(), {"name": "cpu", "nodes": ["cpu-1"], "gpusPerNode": 0}]
    load(
        {"version": "v1", "kubernetes": {"context": "c"}, "platform": "hami", "pools": pools},
    )
