"""Checks of the GPU Operator's settings against its chart and the rest of the stack file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_cluster.kubernetes.resources import ALL_DISABLED, MIG_LABEL
from gpu_cluster.platforms.device_plugin import rules as device_plugin_rules
from gpu_cluster.platforms.feature_labels import written_twice
from gpu_cluster.platforms.findings import value_at
from gpu_cluster.settings.gpu_operator import (
    OPERAND_LABELS,
    OPERANDS_LABEL,
    STATE_LABELS,
    GpuOperatorSettings,
)
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, Location, fault, show

_SECTION = "gpuOperator"

# Labels that, with the value `false`, keep the device plugin off a node (gpu-operator v26.7.0,
# controllers/state_manager.go).
ADVERTISING_LABELS = (OPERANDS_LABEL, f"{OPERAND_LABELS}device-plugin")

# Layouts in MIG manager's own configuration that work on every GPU with MIG support (mig-parted,
# deployments/container/nvidia-mig-manager.yaml).
BUILT_IN_LAYOUTS = (ALL_DISABLED, "all-enabled", "all-balanced")


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults in the settings of the GPU Operator."""
    operator = sections.section(GpuOperatorSettings)
    if operator is None:
        return
    plugin = operator.device_plugin
    yield from device_plugin_rules.labels(sections, plugin.configs if plugin else {})
    yield from device_plugin_rules.operator_files(sections, operator)
    yield from _check_unhealthy(sections)
    yield from _check_labels(sections)
    yield from _check_node_sections(sections, operator)
    yield from _check_operator_values(operator)
    if operator.nfd:
        yield from written_twice(sections, 'write "nfd: false" in gpuOperator')


def _check_unhealthy(sections: ValidSections) -> Iterator[Fault]:
    for i, pool in sections.pools.items():
        if any(devices.index for devices in pool.unhealthy_devices.values()):
            yield fault(
                ("pools", i, "unhealthyDevices"),
                "GPUs to leave out, with platform gpu-operator",
                "platform device-plugin: the operator runs one plugin with one environment on all"
                " nodes, and NVIDIA's plugin reads no list of unhealthy devices",
                'write "platform: device-plugin", or take the node out of the pool',
            )


def _check_labels(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for labels of pools and of single nodes that contradict the operator."""
    for labels in sections.labels():
        at, pool = labels.location, labels.pool
        for key in ADVERTISING_LABELS:
            if labels.own.get(key) == "false" and pool.gpus_per_node:
                yield fault(
                    (*at, key),
                    "false, in a pool with GPUs",
                    "a pool without GPUs: nothing advertises them once the operands are off",
                    'remove it, or write "gpusPerNode: 0"',
                )
        yield from _check_transient_labels(labels.own, at)
        layout = labels.own.get(MIG_LABEL)
        if layout is not None and pool.mig:
            yield fault(
                (*at, MIG_LABEL),
                f"{show(layout)}, in addition to the pool's mig",
                "only one of the two: from mig, this program makes a layout and sets this label "
                "to its name",
                "remove it",
            )
        if layout is not None and not pool.mig and layout not in BUILT_IN_LAYOUTS:
            yield fault(
                (*at, MIG_LABEL),
                show(layout),
                f"one of {', '.join(BUILT_IN_LAYOUTS)}; the pool's mig declares any other layout",
                'remove it, and write "mig: {1g.5gb: 7}" with the profiles of this layout',
            )


def _check_transient_labels(labels: Mapping[str, str], at: Location) -> Iterator[Fault]:
    """Yield faults for declared labels whose values the GPU Operator itself changes.

    Setting such a label would undo the operator's changes.
    """
    for key, value in labels.items():
        if key in STATE_LABELS:
            yield fault(
                (*at, key),
                show(value),
                "no label by which the operator records its state",
                "remove it",
            )
        elif key.startswith(OPERAND_LABELS) and value != "false":
            yield fault(
                (*at, key),
                show(value),
                "false, or no such label: the operator sets true, and paused-for-… during upgrades",
                "remove it",
            )


def _check_node_sections(sections: ValidSections, operator: GpuOperatorSettings) -> Iterator[Fault]:
    """Yield faults for settings of the operator that no driver or runtime of the nodes fits."""
    levels = sections.gpu_levels
    drivers = [level.driver for level in levels if level.driver is not None]
    other_drivers = [driver for driver in drivers if not driver.managed_by_operator]
    if operator.upgrade is not None and other_drivers:
        yield fault(
            (_SECTION, "upgrade"),
            f"an upgrade policy with driver source {other_drivers[0].source}",
            "a driver that the operator brings: it upgrades no other",
            'remove it, or write "source: operator" under driver',
        )
    if operator.vgpu is not None and other_drivers:
        yield fault(
            (_SECTION, "vgpu"),
            f"vGPU with driver source {other_drivers[0].source}",
            "the guest driver as the operator's container, which takes the licence",
            'write "source: operator" under driver',
        )
    elif operator.vgpu is not None and not all(
        driver.image_repository and driver.version for driver in drivers
    ):
        yield fault(
            (_SECTION, "vgpu"),
            "vGPU without driver.imageRepository and driver.version",
            "the guest driver image in a private registry: NVIDIA publishes none",
            'write "imageRepository: registry.example.com/nvidia" and "version: 595.91.07" '
            "under driver; as the image was pushed",
        )
    if operator.nri and any(level.runtime and not level.runtime.cdi for level in levels):
        yield fault(
            (_SECTION, "nri"),
            "true, with runtime.cdi false",
            "CDI, by which the NRI plugin injects devices",
            'write "cdi: true" under runtime',
        )


def _check_operator_values(operator: GpuOperatorSettings) -> Iterator[Fault]:
    extra = operator.extra_values
    if not extra:
        return
    from gpu_cluster.charts.value_check import check
    from gpu_cluster.charts.value_table import table

    at = (_SECTION, "extraValues")
    known_values = table("gpu-operator", operator.version)
    yield from check(known_values, extra, at, complete=not operator.unknown_version)
    yield from device_plugin_rules.foreign_environment(extra, at)
    if operator.sandbox is None:
        yield from device_plugin_rules.turned_off(extra, at)
    policy = value_at(extra, "clusterPolicy", "deployCR", default=True)
    cluster = value_at(extra, "gpuCluster", "deployCR", default=False)
    if cluster is True and policy is True:
        yield fault(
            (*at, "gpuCluster", "deployCR"),
            "true, with clusterPolicy.deployCR true",
            "one of the two objects: the chart rejects both",
            'remove it, or write "platform: dra"',
        )
    elif cluster is True:
        yield fault(
            (*at, "gpuCluster", "deployCR"),
            "true, with platform gpu-operator",
            "a ClusterPolicy: GPUs of a GPUCluster aren't advertised as nvidia.com/gpu, so they "
            "can't be counted",
            "remove gpuCluster and clusterPolicy from extraValues",
        )
    elif policy is False:
        yield fault(
            (*at, "clusterPolicy", "deployCR"),
            "false, with gpuCluster.deployCR false",
            "a ClusterPolicy, without which the operator deploys nothing",
            "remove it",
        )
