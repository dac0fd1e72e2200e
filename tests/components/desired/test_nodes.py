"""A setting of a pool, a host or a node has the effect that it has in the stack's section."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.kubernetes.resources import MIG_LABEL
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.platforms.device_plugin.platform import DevicePluginPlatform
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.settings.device_plugin import CONFIG_LABEL
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_rules.faults import ConfigError
from tests.fixtures.documents import stack_document

Json = dict[str, Any]

SHARED = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
}


def document(pool: Json | None = None, **sections: Any) -> Json:
    """Return two pools of one node each, whose nodes are hosts; `pool` is added to the second."""
    return (
        stack_document(
            context="test",
            pools=[
                {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8},
                {"name": "b", "nodes": ["gpu-2"], "gpusPerNode": 8, **(pool or {})},
            ],
            hosts=[
                {
                    "name": f"gpu-{number}",
                    "address": f"192.0.2.{number}",
                    "hostKey": simulated.host_public_key(f"gpu-{number}"),
                }
                for number in (1, 2)
            ],
        )
        | sections
    )


def desired(pool: Json | None = None, **sections: Any) -> Desired:
    return resolve(load(document(pool, **sections)), "test")


def faults(declared: Json) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(declared)
    return [f"{fault.place}: {fault.found}" for fault in raised.value.faults]


def test_the_engine_of_a_node_is_compared_with_that_of_its_own_host() -> None:
    declared = desired({"runtime": {"engine": "cri-o"}})
    engines = {"gpu-1": "containerd://2.1.0", "gpu-2": "cri-o://1.33.0"}
    seen = ClusterSeen(surroundings=Surroundings(version="v1.34.0", engines=engines))
    inspected = judged(declared, Seen(hosts={}, cluster=seen))
    assert not [problem for problem in inspected.problems if "container engine" in problem]
    swapped = Surroundings(
        version="v1.34.0", engines=dict(zip(engines, reversed(engines.values()), strict=True))
    )
    problems = judged(declared, Seen(hosts={}, cluster=ClusterSeen(surroundings=swapped)))
    assert [problem.partition(";")[0] for problem in problems.problems] == [
        "node gpu-1: found container engine cri-o://1.33.0",
        "node gpu-2: found container engine containerd://2.1.0",
    ]


def test_a_default_runtime_that_the_release_cannot_vary_is_refused_where_it_is_written() -> None:
    (fault,) = faults(document({"runtime": {"defaultRuntime": "runc"}}))
    assert fault == "pools[1].runtime.defaultRuntime: runc for pool b, and nvidia for pool a"
    on_a_host = document()
    on_a_host["hosts"][0]["runtime"] = {"defaultRuntime": "runc"}
    (fault,) = faults(on_a_host)
    assert fault == "hosts[0].runtime.defaultRuntime: runc for host gpu-1, and nvidia for pool a"


@pytest.mark.parametrize(
    ("sections", "platform", "more"),
    [
        ({"driver": {"source": "operator"}}, "device-plugin", {}),
        ({"driver": {"source": "daemonset"}}, "gpu-operator", {}),
        ({"driver": {"kernelModuleType": "open"}}, "device-plugin", {}),
        ({"driver": {"digest": f"sha256:{'0' * 64}"}}, "device-plugin", {}),
        ({"driver": {"source": "daemonset", "version": "595.91.07"}}, "device-plugin", {}),
        ({"runtime": {"toolkit": {"source": "package"}}}, "gpu-manager", {}),
        ({"driver": {"version": "595.91.07"}}, "gpu-manager", {}),
    ],
)
def test_a_check_between_sections_holds_for_a_pool(
    sections: Json, platform: str, more: Json
) -> None:
    of_stack = faults(document(**sections, platform=platform, **more))
    of_pool = faults(document(sections, platform=platform, **more))
    (section,) = sections
    other = not of_stack[0].startswith((f"{section}.", f"{section}:"))
    assert (of_stack[0] if other else f"pools[1].{of_stack[0]}") in of_pool


def test_an_engine_that_makes_its_own_cluster_is_refused_for_a_host_of_kubeadm() -> None:
    init = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}}
    packages = {"version": "1.34.4", "init": init}
    declared = document({"runtime": {"engine": "k3s"}}, kubernetesPackages=packages)
    declared["hosts"][0]["role"] = "gpu-control-plane"
    assert "pools[1].runtime.engine: k3s, with kubernetesPackages.init" in faults(declared)


def test_a_warning_about_the_runtime_names_the_pool_that_it_concerns() -> None:
    plugin = {"config": {"version": "v1", "flags": {"plugin": {"deviceListStrategy": "cdi-cri"}}}}
    runc = {"defaultRuntime": "runc"}
    declared = load(document({"runtime": {"cdi": False}}, runtime=runc, devicePlugin=plugin))
    assert [warning.place for warning in warnings(declared)] == ["pools[1].runtime.cdi"]
    declared = load(document(runtime={"cdi": False, **runc}, devicePlugin=plugin))
    assert [warning.place for warning in warnings(declared)] == ["runtime.cdi"]


def test_a_node_offers_what_the_configuration_of_its_own_label_says() -> None:
    own = {"nodes": {"gpu-1": {"labels": {CONFIG_LABEL: "shared"}}}}
    declared = document(scheduling=own, devicePlugin={"configs": {"shared": SHARED}})
    declared["pools"][0]["nodes"] = ["gpu-1", "gpu-3"]
    cluster = load(declared)
    assert list(warnings(cluster)) == []
    offered = {
        node: pool.resources["nvidia.com/gpu"]
        for pool in resolve(cluster, "test").validation.pools
        for node in pool.nodes or ()
    }
    assert offered == {"gpu-1": 32, "gpu-2": 8, "gpu-3": 8}
    names = [pool.pool for pool in resolve(cluster, "test").validation.pools]
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("platform", "labels"),
    [
        ("device-plugin", {CONFIG_LABEL: "shared"}),
        ("device-plugin", {CONFIG_LABEL: "unknown"}),
        ("device-plugin", {"example.com/rack": "r1"}),
        ("gpu-operator", {CONFIG_LABEL: "shared"}),
        ("gpu-operator", {CONFIG_LABEL: "unknown"}),
        ("gpu-operator", {MIG_LABEL: "all-disabled"}),
        ("gpu-operator", {MIG_LABEL: "own-layout"}),
        ("gpu-operator", {"nvidia.com/gpu.deploy.operands": "false"}),
        ("gpu-operator", {"nvidia.com/mig.config.state": "success"}),
        ("gpu-operator", {"feature.node.kubernetes.io/pci-10de.present": "true"}),
        ("gpu-manager", {"nvidia-device-enable": "enable"}),
        ("dra", {"nvidia.com/gpu.present": "false"}),
    ],
)
def test_labels_and_taints_of_a_node_have_the_effect_of_its_pools(
    platform: str, labels: dict[str, str]
) -> None:
    plugin = {"configs": {"shared": SHARED}}
    of_platform: dict[str, Json] = {
        "device-plugin": {"devicePlugin": plugin},
        "gpu-operator": {"gpuOperator": {"devicePlugin": plugin}},
    }
    sections = of_platform.get(platform, {})
    taint = "example.com/reserved:NoSchedule"
    pool = {"labels": labels, "taints": [taint]}
    nodes = {"nodes": {"gpu-2": {"labels": labels, "taints": [taint]}}}
    declared = [
        document(pool, platform=platform, **sections),
        document({"labels": {}, "taints": []}, platform=platform, scheduling=nodes, **sections),
    ]
    try:
        clusters = [load(each) for each in declared]
    except ConfigError:
        of_pool, of_node = (faults(each) for each in declared)
        at = 'scheduling.nodes["gpu-2"].labels'
        assert [text.replace("pools[1].labels", at) for text in of_pool] == of_node
        return
    assert [list(warnings(each)) for each in clusters[1:]] == [list(warnings(clusters[0]))]
    of_pool, of_node = (resolve(each, "test") for each in clusters)
    assert of_pool.nodes.by_name["gpu-2"] == of_node.nodes.by_name["gpu-2"]
    assert of_pool.validation.pools[1].offers == of_node.validation.pools[1].offers
    assert of_pool.validation.pools[1].pod == of_node.validation.pools[1].pod
    assert of_pool.scheduling.pools[1].of_node("gpu-2") == of_node.scheduling.pools[1].of_node(
        "gpu-2"
    )
    assert of_pool.platform.installation == of_node.platform.installation


def test_labels_that_a_node_overrides_are_known_to_the_rules() -> None:
    own = {"nodes": {"gpu-1": {"labels": {"example.com/rack": "r2", "example.com/more": "x"}}}}
    declared = document(scheduling=own)
    declared["pools"][0] |= {"nodes": ["gpu-1", "gpu-3"], "labels": {"example.com/rack": "r1"}}
    pools = {pool.name: pool for pool in resolve(load(declared), "test").rules.pools}
    assert {name: dict(pool.labels) for name, pool in pools.items()} == {
        "a": {"example.com/rack": "r1"},
        "a-gpu-1": {"example.com/rack": "r2"},
        "b": {"nvidia.com/gpu": "true"},
    }
    assert pools["a"].node_names == {"gpu-3"}


@pytest.mark.parametrize("nodes", [2, 40])
def test_the_platform_is_asked_as_often_for_many_nodes_as_for_few(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {f"gpu-{i}": {"labels": {"example.com/rack": f"r{i}"}} for i in range(1, nodes + 1)}
    declared = document(hosts=[], scheduling={"nodes": own})
    declared["pools"] = [{"name": "a", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}]
    cluster, asked = load(declared), []
    values = DevicePluginPlatform.values
    monkeypatch.setattr(
        DevicePluginPlatform, "values", lambda self: [asked.append(1), values(self)][1]
    )
    resolve(cluster, "test")
    assert len(asked) < 40


def test_a_pool_by_selector_overrides_no_host_in_silence() -> None:
    by_selector = {"name": "b", "selector": {"a/b": "c"}, "count": 1, "gpusPerNode": 8}
    declared = document()
    declared["pools"][1] = {**by_selector, "system": {"swapOff": False}, "ssh": {"user": "admin"}}
    found = "a section in a pool by selector, with host gpu-2 in no pool by name"
    assert faults(declared) == [f"pools[1].system: {found}", f"pools[1].ssh: {found}"]
    del declared["pools"][1]["ssh"]
    declared["hosts"][1]["system"] = {"swapOff": True}
    load(declared)
    load({**declared, "hosts": declared["hosts"][:1]})


def test_a_pool_without_hosts_is_validated_again_when_its_own_driver_changes() -> None:
    def proven(version: str) -> dict[str, str]:
        declared = document({"driver": {"version": version}}, hosts=[])
        pools = resolve(load(declared), "test").validation.pools
        return {pool.pool: pool.settings["driver.version"] for pool in pools}

    assert proven("595.91.07") == {"a": "any", "b": "595.91.07"}


def test_a_driver_of_a_pool_past_its_end_is_named_once_with_the_pool() -> None:
    declared = desired({"driver": {"version": "550.54.14"}})
    found = judged(declared, Seen(hosts={"gpu-1": HostFacts()})).warnings
    told = [text for text in found if "550.54.14" in text]
    assert len(told) == 1, found
    assert told[0].startswith("driver.version: found driver 550.54.14")
