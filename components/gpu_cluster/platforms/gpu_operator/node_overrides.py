"""What the GPU Operator and its operands obey on nodes, whatever their settings say.

Sources: gpu-operator v26.7.0, controllers/state_manager.go (`addGPUStateLabels` keeps a value that
a label already has; `getWorkloadConfig`; `hasOperandsDisabled`), and its dependency
NVIDIA/k8s-operator-libs, pkg/upgrade (consts.go, common_manager.go, upgrade_inplace.go); labels of
its DaemonSets: assets/state-…/0500_daemonset.yaml. NVIDIA/k8s-driver-manager v0.12.0,
cmd/driver-manager/main.go (`isDriverAutoUpgradePolicyEnabled`).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_cluster.charts.value_table import table
from gpu_cluster.kubernetes.resources import ALL_DISABLED, MIG_LABEL, PLUGIN_LABEL
from gpu_cluster.platforms.base import NodeOverride, OperandOverride
from gpu_cluster.platforms.device_plugin.offers import plugin_file_override
from gpu_cluster.settings.gpu_operator import OPERAND_LABELS, OPERANDS_LABEL, GpuOperatorSettings
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.nodes.pool import Pool

WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
SKIP_LABEL = "nvidia.com/gpu-driver-upgrade.skip"
UPGRADE_ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"
UPGRADE_REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
REQUESTOR_MODE = "nvidia.com/gpu-driver-upgrade-requestor-mode"
APPS = {
    "devicePlugin": "nvidia-device-plugin-daemonset",
    "gfd": "gpu-feature-discovery",
    "toolkit": "nvidia-container-toolkit-daemonset",
    "driver": "nvidia-driver-daemonset",
    "validator.plugin": "nvidia-operator-validator",
}
"""Label `app` of the DaemonSet of each section of the chart's values."""


def overrides(
    settings: GpuOperatorSettings, driver: DriverSettings, pools: Iterable[Pool]
) -> tuple[NodeOverride, ...]:
    """Return the labels and annotations that overrule what the settings of an operator decide.

    Args:
        settings: The operator's settings.
        driver: The driver of the nodes with GPUs.
        pools: Pools of the stack file.
    """
    found = [
        NodeOverride(OPERANDS_LABEL, "platform", "the operator runs nothing on the node"),
        NodeOverride(PLUGIN_LABEL, "platform", "the node advertises no GPU"),
        _operand("gpu-feature-discovery", "platform", "the node gets no labels about its GPUs"),
        _operand("operator-validator", "platform", "the operator checks nothing on the node"),
        _operand("dcgm-exporter", "platform", "nothing measures the node's GPUs"),
        plugin_file_override("gpuOperator.devicePlugin"),
        NodeOverride(
            MIG_LABEL,
            "pools[].mig",
            "MIG manager divides the node's GPUs by this layout",
            values=frozenset(),
            harmless=frozenset({ALL_DISABLED}),
        ),
    ]
    if any(pool.mig for pool in pools):
        found.append(_operand("mig-manager", "pools[].mig", "nothing divides the node's GPUs"))
    if settings.toolkit:
        effect = "nothing configures the node's container engine"
        found.append(_operand("container-toolkit", "gpuOperator.toolkit", effect))
    if settings.sandbox:
        found.append(
            NodeOverride(
                WORKLOAD_LABEL,
                "gpuOperator.sandbox.defaultWorkload",
                "the node's GPUs serve this kind of workload",
                values=frozenset(),
                harmless=frozenset({settings.sandbox.default_workload}),
            )
        )
    if driver.managed_by_operator:
        found.append(_operand("driver", "driver.source", "the operator installs no driver there"))
        if settings.upgrade is None or settings.upgrade.automatic:
            effect = "the operator leaves the node's driver at its version"
            found.append(
                NodeOverride(SKIP_LABEL, "driver.version", effect, values=frozenset({"true"}))
            )
            effect = "the operator restarts the node's driver, though its version is the same"
            found.append(_annotation(UPGRADE_REQUESTED, "driver.version", effect, "true"))
            effect = "the operator leaves the node cordoned after an upgrade of its driver"
            found.append(_annotation(REQUESTOR_MODE, "gpuOperator.upgrade", effect))
        else:
            effect = "a new driver evicts no pods with GPUs, and can't replace one in use"
            found.append(_annotation(UPGRADE_ENABLED, "gpuOperator.upgrade", effect, "true"))
    return tuple(found)


def operand_overrides(version: str) -> tuple[OperandOverride, ...]:
    """Return variables and arguments that overrule settings if others write them into a DaemonSet.

    The operator compares a DaemonSet by the hash in an annotation, so that it does not repair an
    edit (controllers/object_controls.go, `isDaemonsetSpecChanged`).

    Args:
        version: Version of the operator's chart.
    """
    return tuple(
        OperandOverride(APPS[section], name, kind == "args", value.setting)
        for place, by_name in table("gpu-operator", version).overrides.items()
        for section, _, kind in [place.rpartition(".")]
        for name, value in by_name.items()
        if section in APPS and value.setting
    )


def _operand(name: str, setting: str, effect: str) -> NodeOverride:
    return NodeOverride(f"{OPERAND_LABELS}{name}", setting, effect)


def _annotation(key: str, setting: str, effect: str, *values: str) -> NodeOverride:
    return NodeOverride(key, setting, effect, values=frozenset(values), is_annotation=True)
