"""Resources that a simulated device plugin advertises, depending on its configuration."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster_lab.simulator import faults
from gpu_cluster_lab.simulator.controller import judge
from gpu_cluster_lab.simulator.controller.devices import count, devices
from gpu_cluster_lab.simulator.controller.mig_manager import layouts
from gpu_cluster_lab.simulator.controller.offered import (
    Configurations,
    Plugin,
    chosen,
    owned,
    read_plugin,
)

SLICED = {"sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]}}}
MIG = {"1g.5gb": 2, "2g.10gb+me": 1}


@pytest.mark.parametrize(
    ("file", "strategy", "mig", "wanted"),
    [
        ({}, "", {}, {"nvidia.com/gpu": 8}),
        (SLICED, "", {}, {"nvidia.com/gpu": 32}),
        ({"flags": {"migStrategy": "single"}}, "", {"1g.5gb": 7}, {"nvidia.com/gpu": 56}),
        ({}, "none", MIG, {"nvidia.com/gpu": 8}),
        ({}, "mixed", MIG, {"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb.me": 8}),
        # The environment variable with the MIG strategy takes precedence over the configuration
        # file.
        ({"flags": {"migStrategy": "mixed"}}, "single", {"1g.5gb": 7}, {"nvidia.com/gpu": 56}),
        (
            {"sharing": {"mps": {**SLICED["sharing"]["timeSlicing"], "renameByDefault": True}}},
            "",
            {},
            {"nvidia.com/gpu.shared": 32},
        ),
    ],
)
def test_a_plugin_offers_what_its_configuration_says(
    file: Any, strategy: str, mig: dict[str, int], wanted: dict[str, int]
) -> None:
    assert count(devices("n", range(8), file, strategy, mig)) == wanted


@pytest.mark.parametrize(
    ("file", "wanted"),
    [({}, {"nvidia.com/gpu": 6}), (SLICED, {"nvidia.com/gpu": 30})],
)
def test_a_critical_xid_withdraws_one_replica_of_a_gpu(file: Any, wanted: dict[str, int]) -> None:
    broken = faults.parse("unhealthy-gpus=2")
    node = judge.Node(1, "gpu-1", 8, None, broken, {}, {}, "")
    assert judge.resources(node, Plugin(), file)[1] == wanted


def test_an_unknown_name_leaves_the_default() -> None:
    data = {"config": "version: v1", "sliced": "sharing: {}"}
    plugin = Plugin(file="config")
    assert chosen(plugin, "sliced", data) == {"sharing": {}}
    assert chosen(plugin, "slicde", data) == {"version": "v1"}
    assert chosen(plugin, "", {}) == {}


def test_a_changed_file_reaches_a_plugin_by_a_new_pod_or_a_new_label() -> None:
    plugin, before = Plugin(file="config"), {"config": "version: v1", "sliced": "sharing: {}"}
    after = {**before, "config": "version: v1\nflags: {}"}
    configurations = Configurations()
    # At first the plugin's ConfigMap doesn't exist; it is created later.
    assert configurations.of("a", plugin, "", {}) == {}
    assert configurations.of("a", plugin, "", before) == {"version": "v1"}
    assert configurations.of("a", plugin, "", after) == {"version": "v1"}
    assert configurations.of("b", plugin, "", after) == {"version": "v1", "flags": {}}
    assert configurations.of("a", plugin, "sliced", after) == {"sharing": {}}
    configurations.forget("a")
    assert configurations.of("a", plugin, "", after) == {"version": "v1", "flags": {}}


def test_a_plugin_sees_the_gpus_that_its_environment_names() -> None:
    def pod(**environment: str) -> dict[str, Any]:
        env = [{"name": name, "value": value} for name, value in environment.items()]
        container = {"name": "nvidia-device-plugin-ctr", "env": env}
        volumes = [{"name": "c", "configMap": {"name": "configs"}}]
        spec = {"containers": [container], "volumes": volumes}
        return {"metadata": {"namespace": "ns"}, "spec": spec}

    assert read_plugin(pod()).visible is None
    assert read_plugin(pod(NVIDIA_VISIBLE_DEVICES="all")).visible is None
    result = read_plugin(pod(NVIDIA_VISIBLE_DEVICES="0,2,5", CONFIG_FILE="/config/sliced"))
    assert (result.visible, result.file, result.config_map) == (
        (0, 2, 5),
        "sliced",
        ("ns", "configs"),
    )
    assert read_plugin(pod(CONFIG_FILE="/config/config.yaml", DEFAULT_CONFIG="a")).file == "a"


def test_pods_of_the_real_operator_are_read_as_its_own() -> None:
    # Source: NVIDIA/gpu-operator v24.3.0, assets/state-container-toolkit and
    # assets/state-device-plugin
    void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    metadata = {"namespace": "ns"}

    def pod(container: str, *volumes: str) -> dict[str, Any]:
        maps = [{"name": name, "configMap": {"name": name}} for name in volumes]
        spec = {"containers": [{"name": container, "env": [void]}], "volumes": maps}
        return {"metadata": metadata, "spec": spec}

    assert read_plugin(pod("nvidia-container-toolkit-ctr", "a-script")) == Plugin()
    found = read_plugin(pod("nvidia-device-plugin", "nvidia-device-plugin-entrypoint", "files"))
    assert (found.visible, found.config_map) == ((), ("ns", "files"))


def test_only_resources_of_a_plugin_are_its_own() -> None:
    capacity = {"cpu": "8", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "2", "a/gpu": "1"}
    assert owned(capacity) == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.5gb": 2}
    assert owned(None) == {}


def test_layouts_are_read_as_mig_manager_reads_them() -> None:
    text = (
        "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"
        "  a100: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
    )
    assert layouts(text) == {"all-disabled": "", "a100": "1g.5gb=7"}
