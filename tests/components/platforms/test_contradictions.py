"""Settings and node labels that would keep a platform's pods off the nodes with GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.platforms.validate_cluster import Declared, validate_cluster
from gpu_rules.faults import ConfigError, FaultSeverity
from gpu_rules.kube.taints import NodeTaint
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
@pytest.mark.promise(
    "A node that the platform's pods would not run on is named with its label, affinity or taint."
)
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


TALOS = "extensions.talos.dev/nvidia-open-gpu-kernel-modules-production"


def required(*keys: str) -> Any:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in keys]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}


@pytest.mark.promise(
    "A node that the platform's pods would not run on is named with its label, affinity or taint."
)
@pytest.mark.parametrize("section", ["devicePlugin", "dra"])
def test_an_affinity_must_admit_every_node_with_gpus(section: str) -> None:
    affinity = {"affinity": required(TALOS)}
    if section == "dra":
        affinity = {"kubeletPlugin": affinity}
    document = {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "platform": "dra" if section == "dra" else "device-plugin",
        section: {"extraValues": affinity},
        "pools": pool(),
    }
    (text,) = found(load(document), {})
    assert text.startswith(
        "node gpu-1: found labels that the node affinity in extraValues does not"
    )
    assert f"it wants {TALOS} Exists" in text
    assert "repair" not in text
    assert found(load(document), {TALOS: "x"}) == []
    assert found(load({**document, "pools": pool(labels={TALOS: "x"})}), {}) == []


@pytest.mark.parametrize(
    ("labels", "faults"),
    [({}, 0), ({f"{NFD}x": "true"}, 1), ({f"{NFD}x": "true", f"{NFD}pci-10de.present": "true"}, 0)],
)
def test_an_affinity_may_rest_on_labels_that_a_discovery_has_yet_to_set(
    labels: dict[str, str], faults: int
) -> None:
    affinity = required(f"{NFD}pci-10de.present")
    declared = plugin(devicePlugin={"extraValues": {"affinity": affinity}})
    assert len(found(declared, labels)) == faults


def of_manifest(spec: Any) -> Any:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvdp", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"name": "nvdp"}},
            "template": {
                "spec": {
                    "containers": [
                        {"name": "p", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
                    ],
                    **spec,
                }
            },
        },
    }
    return plugin(adopted={"objects": [manifest]})


def test_manifests_are_judged_like_values() -> None:
    (text,) = found(of_manifest({"affinity": required(TALOS)}), {})
    assert "the node affinity in adopted.objects does not admit" in text
    (text,) = found(of_manifest({"nodeSelector": {"a/b": "c"}}), {})
    assert "which a nodeSelector in adopted.objects demands" in text
    assert found(of_manifest({}), {}) == []


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        (plugin(), "scheduling.tolerations"),
        (operator(), "scheduling.tolerations"),
        (of_manifest({}), "the tolerations in adopted.objects"),
    ],
)
def test_a_taint_of_others_that_the_pods_do_not_tolerate_is_a_warning(
    declared: Any, place: str
) -> None:
    taint = NodeTaint("dedicated", "ml")
    seen = replace(SEEN, taints={"gpu-1": (taint,)})
    faults = validate_cluster(
        platform_of(declared), seen, {"a100": [{"kubernetes.io/hostname": "gpu-1"}]}, {}, Declared()
    )
    (fault,) = faults
    assert fault.severity is FaultSeverity.WARNING
    assert "the taint dedicated=ml:NoSchedule, which the platform's pods do not tolerate" in str(
        fault
    )
    assert f"add a toleration of dedicated to {place}" in str(fault)


def test_a_declared_toleration_is_one() -> None:
    declared = plugin(scheduling={"tolerations": [{"key": "dedicated", "operator": "Exists"}]})
    seen = replace(SEEN, taints={"gpu-1": (NodeTaint("dedicated", "ml"),)})
    members = {"a100": [{"kubernetes.io/hostname": "gpu-1"}]}
    assert validate_cluster(platform_of(declared), seen, members, {}, Declared()) == []


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
