"""Settings and node labels that would keep a platform's pods off the nodes with GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.platforms.validate_cluster import Declared, validate_cluster
from gpu_rules.faults import ConfigError
from tests.proofs.platform.clusters import SLICED, operator, plugin, pool
from tests.resolved import platform_of

NFD = "feature.node.kubernetes.io/"
SEEN = Surroundings(version="v1.34.4", groups={"resource.k8s.io": ["v1"]})
OFF = {"extraValues": {"devicePlugin": {"enabled": False}}}
LABEL = "nvidia.com/gpu.deploy.device-plugin"


def found(declared: Any, labels: dict[str, str]) -> list[str]:
    node = {"kubernetes.io/hostname": "gpu-1", **labels}
    members = {"a100": [node]}
    return [
        str(it) for it in validate_cluster(platform_of(declared), SEEN, members, {}, Declared())
    ]


@pytest.mark.clusters("stale", "labels of another discovery")
@pytest.mark.promise("A node that the platform's pods would not run on is named with its label.")
def test_a_label_that_the_presence_rests_on_is_named_if_it_is_missing() -> None:
    declared = plugin(devicePlugin={"presence": "existing-nfd"})
    (text,) = found(declared, {f"{NFD}pci-0302_10de.present": "true"})
    assert text.startswith("node gpu-1: found labels of Node Feature Discovery")
    assert f"{NFD}pci-0302_10de.present" in text
    assert f"{NFD}pci-10de.present=true" in text
    assert found(declared, {f"{NFD}pci-10de.present": "true"}) == []
    assert found(declared, {}) == []
    own = {"presence": "existing-nfd", "extraValues": {"affinity": []}}
    assert found(plugin(devicePlugin=own), {f"{NFD}x": "true"}) == []


def test_the_operator_takes_more_labels_of_an_existing_discovery_than_the_plugin() -> None:
    declared = operator(gpuOperator={"nfd": False})
    assert found(declared, {f"{NFD}pci-0302_10de.present": "true"}) == []
    assert len(found(declared, {f"{NFD}cpu-hardware_multithreading": "true"})) == 1
    assert found(operator(), {f"{NFD}cpu-hardware_multithreading": "true"}) == []


@pytest.mark.parametrize(
    ("platform", "section", "extra"),
    [
        ("device-plugin", "devicePlugin", {"nodeSelector": {"a/b": "c"}}),
        ("dra", "dra", {"kubeletPlugin": {"nodeSelector": {"a/b": "c"}}}),
    ],
)
def test_a_node_selector_must_fit_every_node_with_gpus(
    platform: str, section: str, extra: dict[str, Any]
) -> None:
    document = {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "platform": platform,
        section: {"extraValues": extra},
    }
    (text,) = found(load({**document, "pools": pool()}), {})
    assert text.startswith("node gpu-1: found no label a/b=c")
    assert found(load({**document, "pools": pool()}), {"a/b": "c"}) == []
    assert found(load({**document, "pools": pool(labels={"a/b": "c"})}), {}) == []


@pytest.mark.promise("Settings that would leave declared GPUs without a device plugin are refused.")
def test_a_device_plugin_that_is_turned_off_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing else advertises the GPUs"):
        plugin(devicePlugin=OFF)
    with pytest.raises(ConfigError, match="nothing else advertises the GPUs"):
        operator(gpuOperator=OFF)
    with pytest.raises(ConfigError, match=LABEL):
        operator(pools=pool(labels={LABEL: "false"}))
    with pytest.raises(ConfigError, match=LABEL):
        operator(scheduling={"nodes": {"gpu-1": {"labels": {LABEL: "false"}}}})
    operator(pools=pool(gpusPerNode=0, labels={LABEL: "false"}))


def test_a_configuration_that_no_pool_selects_is_a_warning() -> None:
    declared = plugin(devicePlugin={"configs": {"sliced": SLICED}})
    (warning,) = warnings(declared)
    assert str(warning).startswith(
        "devicePlugin.configs.sliced: found a configuration that no pool"
    )
    selected = pool(labels={"nvidia.com/device-plugin.config": "sliced"})
    declared = plugin(pools=selected, devicePlugin={"configs": {"sliced": SLICED}})
    assert list(warnings(declared)) == []


def test_an_affinity_that_would_bring_a_second_plugin_onto_a_node_is_refused() -> None:
    left_out = pool(unhealthyDevices={"gpu-3": {"index": [3]}})
    with pytest.raises(ConfigError, match="two plugins would assign the same GPU twice"):
        plugin(pools=left_out, devicePlugin={"extraValues": {"affinity": []}})
