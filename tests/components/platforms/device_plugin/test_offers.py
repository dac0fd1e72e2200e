"""Resources that nodes advertise by pool and plugin configuration, and how pools are counted."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.loading.loader import load
from gpu_cluster.outputs import left_out
from gpu_cluster.platforms.base import Offer
from gpu_cluster.platforms.device_plugin.excluded_gpus import daemon_sets
from gpu_cluster.platforms.gpu_manager.platform import SHARE
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError
from tests.desired_host import desired_host
from tests.fixtures.documents import stack_document
from tests.resolved import platform_of

LABEL = "nvidia.com/device-plugin.config"


def cluster(platform: str = "device-plugin", **sections: Any) -> Cluster:
    return load(stack_document(platform=platform) | sections)


def pool(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8, **changes}]


def shared(way: str, **changes: Any) -> dict[str, Any]:
    resources = [{"name": "nvidia.com/gpu", "replicas": 4}]
    return {"config": {"sharing": {way: {"resources": resources, **changes}}}}


MIG = {"1g.5gb": 3, "1g.5gb+me": 1}
CASES: dict[str, tuple[Cluster, tuple[Offer, ...]]] = {
    "whole": (cluster(), (Offer("nvidia.com/gpu", 8, 8),)),
    "time-slicing": (
        cluster(devicePlugin=shared("timeSlicing")),
        (Offer("nvidia.com/gpu", 32, 8),),
    ),
    "renamed": (
        cluster(devicePlugin=shared("mps", renameByDefault=True)),
        (Offer("nvidia.com/gpu.shared", 32, 8),),
    ),
    "mig-mixed": (
        cluster("gpu-operator", pools=pool(mig=MIG), gpuOperator={"migStrategy": "mixed"}),
        (Offer("nvidia.com/mig-1g.5gb", 24, 24), Offer("nvidia.com/mig-1g.5gb.me", 8, 8)),
    ),
    "mig-single": (
        cluster("gpu-operator", pools=pool(mig={"1g.5gb": 7})),
        (Offer("nvidia.com/gpu", 56, 56),),
    ),
    "cards": (cluster("gpu-manager"), (Offer("tencent.com/vcuda-core", 800, 8, 100, SHARE),)),
    "named": (
        cluster(
            pools=pool(labels={LABEL: "sliced"}),
            devicePlugin={"configs": {"sliced": shared("timeSlicing")["config"]}},
        ),
        (Offer("nvidia.com/gpu", 32, 8),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_node_offers_what_its_configuration_says(name: str) -> None:
    declared, wanted = CASES[name]
    assert platform_of(declared).offers(declared.pools[0]) == wanted


def test_nodes_that_offer_different_counts_are_counted_apart() -> None:
    declared = cluster(pools=pool(unhealthyDevices={"gpu-3": {"index": [5, 3]}}))
    counted = [
        (pool.pool, pool.nodes, pool.resources["nvidia.com/gpu"])
        for pool in resolve(declared, "dev").validation.pools
    ]
    assert counted == [("a100", ("gpu-1", "gpu-2", "gpu-4"), 8), ("a100-x6", ("gpu-3",), 6)]
    assert sum(pool.gpus for pool in declared.pools) == 30


def test_a_node_with_gpus_left_out_has_a_plugin_that_sees_the_others() -> None:
    declared = cluster(
        pools=pool(
            unhealthyDevices={"gpu-3": {"index": [5, 3]}, "gpu-4": {"index": [3, 5]}},
            labels={LABEL: "Sliced_1"},
        ),
        devicePlugin={"configs": {"Sliced_1": shared("timeSlicing")["config"]}},
    )
    (made,) = daemon_sets(declared.device_plugin, platform_of(declared).site, {})
    pod = made["spec"]["template"]["spec"]
    environment = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "0,1,2,4,6,7"
    assert environment["CONFIG_FILE"] == "/config/Sliced_1"
    # The toolkit accepts NVIDIA_VISIBLE_DEVICES only from a container with SYS_ADMIN
    # (`toolkit_rights`).
    assert pod["containers"][0]["securityContext"] == {"capabilities": {"add": ["SYS_ADMIN"]}}
    assert made["metadata"]["name"] == "nvidia-device-plugin-without-3-5-of-8-sliced-1"
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    nodes = [term["matchFields"][0]["values"] for term in required["nodeSelectorTerms"]]
    assert nodes == [["gpu-3"], ["gpu-4"]]


def test_a_gpu_off_the_bus_is_not_counted_and_not_named() -> None:
    """With the index of a lost GPU in `NVIDIA_VISIBLE_DEVICES`, the plugin doesn't start at all."""
    declared = cluster(
        pools=pool(
            unhealthyDevices={"gpu-3": {"missing": 1}, "gpu-4": {"missing": 1, "index": [6]}}
        )
    )
    (made,) = daemon_sets(declared.device_plugin, platform_of(declared).site, {})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    visible = {variable["name"]: variable["value"] for variable in container["env"]}[
        "NVIDIA_VISIBLE_DEVICES"
    ]
    assert visible == "0,1,2,3,4,5"
    counted = {
        name: part.gpus_per_node
        for part in declared.pools[0].parts({})
        for name in part.nodes or ()
    }
    assert counted == {"gpu-1": 8, "gpu-2": 8, "gpu-3": 7, "gpu-4": 6}
    assert declared.pools[0].gpus == 29


UUID = "GPU-00000001-0000-4000-8000-000000000000"
HOST = {
    "name": "gpu-3",
    "address": "192.0.2.13",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F",
}
BY_UUID = pool(unhealthyDevices={"gpu-3": {"uuid": [UUID]}})


@pytest.mark.parametrize("devices", [8, 7])
def test_a_gpu_by_uuid_is_left_out_by_its_hosts_driver_also_off_the_bus(devices: int) -> None:
    declared = cluster(pools=BY_UUID, hosts=[HOST])
    (host,) = declared.hosts
    assert f"GC_EXCLUDED={UUID}\n" in prepare_script(desired_host(declared, host))
    facts = HostFacts(nvidia_devices=devices)
    assert not [
        fault
        for fault in validate_host(desired_host(declared, host), facts)
        if "PCI devices" in fault.found
    ]
    assert validate_host(desired_host(declared, host), HostFacts(nvidia_devices=6))[-1]
    counted = {
        name: part.gpus_per_node
        for part in declared.pools[0].parts({})
        for name in part.nodes or ()
    }
    assert counted == {"gpu-1": 8, "gpu-2": 8, "gpu-4": 8, "gpu-3": 7}
    assert left_out(declared.pools) == {"gpu-3": [UUID]}
    # The driver hides the excluded GPU, so the node needs no separate device plugin.
    assert daemon_sets(declared.device_plugin, platform_of(declared).site, {}) == []


def test_indexes_count_what_the_driver_shows() -> None:
    changes = {"gpu-3": {"uuid": [UUID], "index": [6]}}
    declared = cluster(pools=pool(unhealthyDevices=changes), hosts=[HOST])
    (made,) = daemon_sets(declared.device_plugin, platform_of(declared).site, {})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    visible = {variable["name"]: variable["value"] for variable in container["env"]}[
        "NVIDIA_VISIBLE_DEVICES"
    ]
    assert visible == "0,1,2,3,4,5"


@pytest.mark.parametrize(
    ("sections", "found"),
    [
        ({}, "which isn't a host"),
        (
            {"hosts": [HOST], "platform": "gpu-operator", "driver": {"source": "operator"}},
            "UUIDs with driver.source operator",
        ),
    ],
)
def test_a_gpu_by_uuid_needs_a_driver_that_we_tell(sections: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster(**{"platform": "device-plugin", "pools": BY_UUID, **sections})
    assert found in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "settings", "place"),
    [
        ({"gpu-3": {"missing": 8}}, {}, "pools[0]"),
        ({"gpu-3": {"uuid": [UUID], "index": [7]}}, {}, "pools[0]"),
        ({"gpu-3": {"uuid": [UUID, UUID]}}, {}, 'pools[0].unhealthyDevices["gpu-3"]'),
        ({"gpu-3": {"uuid": ["GPU-1"]}}, {}, 'pools[0].unhealthyDevices["gpu-3"].uuid[0]'),
        ({"gpu-3": {"missing": 1, "index": [7]}}, {}, "pools[0]"),
        ({"gpu-3": {}}, {}, 'pools[0].unhealthyDevices["gpu-3"]'),
        (
            {"gpu-3": {"index": [3]}},
            {"config": {"flags": {"plugin": {"deviceIDStrategy": "index"}}}},
            'pools[0].unhealthyDevices["gpu-3"]',
        ),
    ],
    ids=[
        "all",
        "an index that the driver doesn't show",
        "twice",
        "a part of a UUID",
        "an index that is gone",
        "nothing",
        "by index inside the plugin",
    ],
)
def test_what_cannot_be_left_out_is_refused(
    changes: dict[str, Any], settings: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster(pools=pool(unhealthyDevices=changes), devicePlugin=settings)
    assert [fault.place for fault in raised.value.faults] == [place]


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        (cluster(), {"nvidia.com/gpu.present": "true"}),
        (cluster(devicePlugin={"gfd": True}), {}),
        (
            cluster(devicePlugin=shared("mps")),
            {"nvidia.com/gpu.present": "true", "nvidia.com/mps.capable": "true"},
        ),
        (
            cluster("gpu-operator", pools=pool(mig={"1g.5gb": 7})),
            # The node's MIG label is not set with the other labels: a rollout changes the layout.
            {},
        ),
    ],
    ids=["label", "nfd", "mps", "mig"],
)
def test_a_pool_has_the_labels_that_its_platform_needs(
    declared: Cluster, wanted: dict[str, str]
) -> None:
    assert resolve(declared, "t").scheduling.pools[0].labels == {"nvidia.com/gpu": "true", **wanted}
