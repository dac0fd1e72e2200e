"""Labels and annotations that the GPU Operator sets on nodes. All functions are pure.

Source: NVIDIA/gpu-operator v24.3.0, controllers/state_manager.go (labelGPUNodes,
applyDriverAutoUpgradeAnnotation), and v26.7.0, controllers/nodelabeling_controller.go.
"""

from __future__ import annotations

from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller import operands

#: Labels by which the operator recognises a node with GPUs; one label is enough (state_manager.go,
#: gpuNodeLabels).
GPU_LABELS = tuple(
    f"feature.node.kubernetes.io/pci-{device}.present"
    for device in ("10de", "0302_10de", "0300_10de")
)
UPGRADE = "nvidia.com/gpu-driver-upgrade-enabled"
#: Label with the state of a node's driver upgrade (k8s-operator-libs, pkg/upgrade/consts.go). The
#: operator's upgrade controller sets the label, and removes it if driver upgrades are disabled.
UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
MIG_CAPABLE = "nvidia.com/mig.capable"
_MIG_MANAGER = operands.DEPLOY + "mig-manager"
_PRODUCT = "nvidia.com/gpu.product"
_VGPU_HOST = "nvidia.com/vgpu.host-driver-version"
_DIVISIBLE = ("h100", "a100", "a30")


def is_present(labels: dict[str, str]) -> bool:
    """Check that the operator has labelled a node as a GPU node."""
    return labels.get(operands.PRESENT) == "true"


def has_gpus(labels: dict[str, str]) -> bool:
    """Check that Node Feature Discovery found GPUs on a node."""
    return any(labels.get(key) == "true" for key in GPU_LABELS)


def patch(metadata: Json, policy: Json, driver_runs: bool = False) -> Json | None:
    """Return the merge patch for a node's labels and annotations; None if nothing must change.

    Args:
        metadata: Current labels and annotations of the node.
        policy: The ClusterPolicy.
        driver_runs: True if all pods of the driver's DaemonSet are ready.
    """
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    spec = policy.get("spec") or {}
    changed = _changed_labels(labels, spec)
    present = changed.get(operands.PRESENT, labels.get(operands.PRESENT)) == "true"
    marked: dict[str, str | None] = {}
    if present:
        upgrades = _is_upgraded(spec)
        if notes.get(UPGRADE) != (upgrade_value := "true" if upgrades else None):
            marked[UPGRADE] = upgrade_value
        if not upgrades and UPGRADE_STATE in labels:
            changed[UPGRADE_STATE] = None
        elif upgrades and driver_runs and UPGRADE_STATE not in labels:
            changed[UPGRADE_STATE] = "upgrade-done"
    return {"labels": changed, "annotations": marked} if changed or marked else None


def _changed_labels(labels: dict[str, str], spec: Json) -> dict[str, str | None]:
    gone: dict[str, str | None] = {key: None for key in labels if key in _state_labels()}
    if not has_gpus(labels):
        return {operands.PRESENT: "false", **gone} if is_present(labels) else {}
    changed: dict[str, str | None] = {} if is_present(labels) else {operands.PRESENT: "true"}
    if labels.get(operands.OPERANDS_OFF) == "false":
        return changed | gone
    # A value that exists, such as "false", was set by a user and is kept. An empty value is
    # replaced, because k8s-driver-manager writes empty values for operands that never ran.
    changed |= {key: "true" for key in operands.STATE_LABELS if not labels.get(key)}
    if is_divisible(labels):
        if _MIG_MANAGER not in labels:
            changed[_MIG_MANAGER] = "true"
        manager = spec.get("migManager") or {}
        default = (manager.get("config") or {}).get("default")
        sets_layout = manager.get("enabled", True) and default == operands.MIG_DISABLED
        if sets_layout and not labels.get(operands.MIG_LAYOUT):
            changed[operands.MIG_LAYOUT] = operands.MIG_DISABLED
    return changed


def is_divisible(labels: dict[str, str]) -> bool:
    """Check that a node's GPUs support MIG (state_manager.go, hasMIGCapableGPU)."""
    if labels.get(_VGPU_HOST):
        return False
    if MIG_CAPABLE in labels:
        return labels[MIG_CAPABLE] == "true"
    return any(name in labels.get(_PRODUCT, "").lower() for name in _DIVISIBLE)


def _state_labels() -> set[str]:
    return {*operands.STATE_LABELS, _MIG_MANAGER}


def _is_upgraded(spec: Json) -> bool:
    policy = (spec.get("driver") or {}).get("upgradePolicy") or {}
    sandbox = (spec.get("sandboxWorkloads") or {}).get("enabled", False)
    return bool(policy.get("autoUpgrade")) and not sandbox
