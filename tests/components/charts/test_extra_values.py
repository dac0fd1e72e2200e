"""Effects of `extraValues` and the related chart settings on the Helm values."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.device_plugin.excluded_gpus import daemon_sets
from gpu_rules.faults import ConfigError
from tests.fixtures.documents import stack_document
from tests.proofs.platform.clusters import operator, plugin, pool
from tests.resolved import platform_of

SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true"}
PASSING = {"flags": {"plugin": {"passDeviceSpecs": True}}}


@pytest.mark.promise(
    "A plugin that passes device specifications runs privileged, as the CPU manager requires."
)
def test_a_plugin_that_passes_device_specifications_is_privileged() -> None:
    declared = plugin(devicePlugin={"config": PASSING})
    assert platform_of(declared).values()["compatWithCPUManager"] is True
    some = platform_of(plugin(devicePlugin={"configs": {"a": PASSING}})).values()
    assert some["securityContext"] == {"privileged": True}
    assert "compatWithCPUManager" not in some
    own = {"config": PASSING, "extraValues": {"securityContext": {"privileged": True}}}
    assert "compatWithCPUManager" not in platform_of(plugin(devicePlugin=own)).values()


def test_a_plugin_for_nodes_with_excluded_gpus_is_as_privileged_as_the_charts() -> None:
    left_out = pool(unhealthyDevices={"gpu-3": {"index": [3]}})
    declared = plugin(pools=left_out, devicePlugin={"config": PASSING})
    platform = platform_of(declared)
    (own,) = daemon_sets(declared.device_plugin, platform.site, platform.values())
    (container,) = own["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {"privileged": True}


@pytest.mark.promise(
    "Pods of the GPU software tolerate taints of others that scheduling.tolerations names."
)
@pytest.mark.parametrize("platform", ["device-plugin", "gpu-operator", "dra"])
def test_declared_tolerations_reach_every_pod_of_the_gpu_software(platform: str) -> None:
    any_taint = {"operator": "Exists"}
    declared = load(
        stack_document(
            platform=platform, pools=pool(), scheduling={"tolerations": [SPOT, any_taint]}
        )
    )
    values: Any = platform_of(declared).values()
    sections: Any = {"device-plugin": values, "gpu-operator": values.get("daemonsets", {})}
    given = sections.get(platform, values.get("kubeletPlugin", {}))["tolerations"]
    assert SPOT in given
    assert any_taint in given


@pytest.mark.parametrize(
    ("toleration", "why"),
    [
        ({"operator": "Equal", "value": "x"}, "without key"),
        ({"key": "a", "operator": "Exists", "value": "x"}, "no value"),
        ({"key": "a", "tolerationSeconds": 3}, "tolerationSeconds"),
    ],
)
def test_a_toleration_that_kubernetes_refuses_is_refused(
    toleration: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        plugin(scheduling={"tolerations": [toleration]})


def test_a_charts_default_affinity_can_be_taken_away() -> None:
    declared = plugin(devicePlugin={"extraValues": {"affinity": []}})
    assert platform_of(declared).values()["affinity"] == []


@pytest.mark.promise("A null in extraValues is refused, since Helm would never read it.")
@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"operator": {"resources": {"limits": None}}}, r"operator\.resources\.limits"),
        ({"operator": {"tolerations": [None]}}, r"operator\.tolerations\[0\]"),
        ({"operator": {"affinity": {"nodeAffinity": None}}}, r"affinity\.nodeAffinity"),
    ],
)
def test_a_null_is_refused_where_it_stands(values: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError, match=rf"{place}: found null.*before Helm reads it"):
        operator(gpuOperator={"extraValues": values})


def test_an_own_precompiled_image_may_have_any_version() -> None:
    driver = {"source": "operator", "precompiled": True, "version": "550.54.14"}
    own = {"imageRepository": "ghcr.example.com/me", "image": "nv-driver"}
    values = platform_of(operator(driver={**driver, **own})).values()["driver"]
    assert (values["version"], values["usePrecompiled"]) == ("550.54.14", True)
    with pytest.raises(ConfigError, match="NVIDIA's precompiled images are tagged"):
        operator(driver=driver)


def test_the_cure_for_a_file_of_all_nodes_keeps_it_on_all_nodes() -> None:
    extra = {"config": {"map": {"default": "version: v1"}}}
    with pytest.raises(ConfigError, match=r'move its file "default" to devicePlugin\.config$'):
        plugin(devicePlugin={"extraValues": extra})


def dra(**section: Any) -> Any:
    document = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "dra", "pools": pool()}
    return platform_of(load({**document, "dra": section}))


@pytest.mark.promise("The DRA driver's chart takes its own values, checked by its version.")
def test_the_dra_drivers_values_are_checked_and_reach_its_chart() -> None:
    extra = {"nvidiaDriverRoot": "/run/nvidia/driver", "featureGates": {"MPSSupport": True}}
    values = dra(extraValues=extra).values()
    assert values["featureGates"] == {"MPSSupport": True}
    assert values["gpuResourcesEnabledOverride"] is True
    with pytest.raises(ConfigError, match=r"dra\.extraValues\.nvidiaDriverRot.*nvidiaDriverRoot"):
        dra(extraValues={"nvidiaDriverRot": "/"})
    with pytest.raises(ConfigError, match=r"write dra\.computeDomains"):
        dra(extraValues={"resources": {"computeDomains": {"enabled": True}}})
    with pytest.raises(ConfigError, match=r"which the chart reads since 0\.5"):
        dra(version="0.4.1", extraValues={"consumableShares": "4"})


@pytest.mark.parametrize("version", ["25.3.2", "9.9.9"])
def test_a_version_of_the_dra_driver_that_is_not_known_needs_consent(version: str) -> None:
    with pytest.raises(ConfigError, match=r"values are known: 0\.4\.x or 0\.5\.x"):
        dra(version=version)
    assert dra(version=version, unknownVersion=True).version == version
