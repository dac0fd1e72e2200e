"""ClusterPolicies for the comparison of the real GPU Operator with the simulated GPU Operator.

They are rendered from this project's values with the chart of the tested release, v24.3.0.
`SETTINGS` has the compared settings; `NEWER` has the settings that are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator.controller.discovery import PCI
from lab.helm import Helm
from lab.real.build import operator_files
from lab.real.operator.controller import NAMESPACE

Json = dict[str, Any]
NODES = ("gpu-1", "gpu-2")
GPUS = 8
SLICED = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
DRIVER = {"source": "operator", "version": "550.54.15"}


@dataclass(frozen=True)
class Setting:
    """One configuration under which both operators are compared.

    `sections` are the stack file's sections that it changes; `labels` are set on the nodes before
    the operator starts.
    """

    name: str
    sections: Json = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def _extra_values(**values: Any) -> Json:
    return {"gpuOperator": {"extraValues": values}}


SETTINGS = (
    Setting("hosts bring driver and toolkit"),
    Setting("the operator brings driver and toolkit", {"driver": DRIVER}),
    Setting(
        "drivers are upgraded without a drain",
        {"driver": DRIVER, "gpuOperator": {"upgrade": {"parallel": 2, "maxUnavailable": 1}}},
    ),
    Setting("devices without CDI", {"runtime": {"cdi": False}, "driver": DRIVER}),
    Setting("a configuration of the plugin", {"gpuOperator": {"devicePlugin": {"config": SLICED}}}),
    Setting(
        "MIG layouts",
        {
            "pools": [
                {
                    "name": "a100",
                    "nodes": list(NODES),
                    "gpusPerNode": GPUS,
                    "mig": {"1g.5gb": 2, "2g.10gb": 2},
                }
            ],
            "gpuOperator": {"migStrategy": "mixed"},
        },
        # GPU Feature Discovery sets this label on nodes with MIG-capable GPUs.
        {"nvidia.com/mig.capable": "true"},
    ),
    Setting(
        "a standalone DCGM and the node's status",
        _extra_values(
            dcgm={"enabled": True},
            nodeStatusExporter={"enabled": True},
            gfd={"enabled": False},
        ),
    ),
    Setting(
        "settings of all operands",
        _extra_values(
            daemonsets={
                "updateStrategy": "OnDelete",
                "priorityClassName": "system-cluster-critical",
                "labels": {"team": "a"},
                "annotations": {"note": "b"},
            },
        ),
    ),
    Setting(
        "a rolling update by shares",
        _extra_values(daemonsets={"rollingUpdate": {"maxUnavailable": "50%"}}),
    ),
    Setting("a private registry", {"registry": {"mirror": "registry.example.com/gpu"}}),
    Setting("no node with GPUs", {}, {PCI: "false"}),
    Setting("operands off on all nodes", {}, {"nvidia.com/gpu.deploy.operands": "false"}),
)

#: Settings that are not compared, with the reason: v24.3.0 doesn't have the setting, or one of the
#: two operators doesn't support it.
NEWER = {
    "`driver.kernelModuleType`": "24.3.0 has `useOpenKernelModules`, which no values of ours set",
    "`driver.precompiled`": "a DaemonSet for each kernel; simulated nodes have none",
    "`driver.resource`": "another controller of the operator makes its DaemonSets; it isn't "
    "simulated",
    "`gpuOperator.nri`": "24.3.0 doesn't know the engine's NRI",
    "`gpuOperator.sandbox`": "virtual machines aren't simulated",
    "`gpuOperator.vgpu`": "24.3.0 takes a licence from a ConfigMap, our pin from a Secret",
}


def declared(setting: Setting) -> Cluster:
    """Return the whole stack configuration for a setting."""
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "gpu-cluster-real-operator"},
            "platform": "gpu-operator",
            "pools": [{"name": "a100", "nodes": list(NODES), "gpusPerNode": GPUS}],
            **setting.sections,
        }
    )


def rendered(helm: Helm, setting: Setting) -> Iterator[Json]:
    """Yield the ClusterPolicy of a setting, and the ConfigMaps that the policy names.

    The chart of the current release creates the MIG manager's ConfigMap from values. The chart of
    the tested release would put the text into the policy, which has no such field; so this function
    creates the ConfigMap.
    """
    cluster = declared(setting)
    chart = operator_files() / "deployments" / "gpu-operator"
    values = resolve(cluster, "test").platform.values()
    layouts = values.get("migManager", {}).get("config", {})
    if layouts:
        config = {key: layouts[key] for key in ("name", "default")}
        values = {**values, "migManager": {"config": config}}
        yield {"kind": "ConfigMap", "metadata": {"name": config["name"]}, "data": layouts["data"]}
    for item in helm.render(chart, values, NAMESPACE):
        if item["kind"] in ("ClusterPolicy", "ConfigMap"):
            yield item
