"""DaemonSets and status that the GPU Operator derives from its `ClusterPolicy`. Pure functions.

Names, labels and container names: NVIDIA/gpu-operator v26.7.0, assets/*/*daemonset.yaml. Node
labels and order: controllers/state_manager.go, gpuStateLabels["container"], addState.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_cluster_lab.simulator.api import Json

API_VERSION = "nvidia.com/v1"
POLICY = "cluster-policy"
DRIVER = "nvidia-driver-daemonset"
POLICIES = f"/apis/{API_VERSION}/clusterpolicies"
MANAGED_BY = {"app.kubernetes.io/managed-by": "gpu-operator"}

PRESENT = "nvidia.com/gpu.present"
DEPLOY = "nvidia.com/gpu.deploy."
#: Node label with which a user disables all operands on a node.
OPERANDS_OFF = DEPLOY + "operands"
MIG_LAYOUT = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
#: Name of the MIG layout without MIG devices.
MIG_DISABLED = "all-disabled"
#: Labels that the operator sets on each GPU node with container workloads, in addition to
#: `PRESENT`.
STATE_LABELS = tuple(
    DEPLOY + name
    for name in (
        "driver",
        "gpu-feature-discovery",
        "container-toolkit",
        "device-plugin",
        "dcgm",
        "dcgm-exporter",
        "node-status-exporter",
        "operator-validator",
        "client",
    )
)


@dataclass(frozen=True)
class Operand:
    """DaemonSet that the GPU Operator creates, called an operand.

    Attributes:
        name: Name of the DaemonSet.
        container: Name of its main container.
        key: Section of the ClusterPolicy with the operand's settings.
        deploy: End of the node label that enables the operand on a node.
        default: True if the operand is enabled unless the policy disables it.
        also: Further label that a node must have; empty for none.
        part_of: Value of the label `app.kubernetes.io/part-of`, which is also in the selector.
        labels: Further labels of the pods.
    """

    name: str
    container: str
    key: str
    deploy: str
    default: bool = True
    also: str = ""
    part_of: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels by which the DaemonSet selects its pods."""
        part_label = {"app.kubernetes.io/part-of": self.part_of} if self.part_of else {}
        return {"app": self.name, **part_label}

    @property
    def node_selector(self) -> dict[str, str]:
        """Return the labels of the nodes on which the operand runs."""
        return {key: "true" for key in (DEPLOY + self.deploy, self.also) if key}


#: All operands, in the order in which the operator creates them.
OPERANDS = (
    Operand(
        DRIVER,
        "nvidia-driver-ctr",
        "driver",
        "driver",
        labels={
            "nvidia.com/precompiled": "false",
            "app.kubernetes.io/component": "nvidia-driver",
        },
    ),
    Operand(
        "nvidia-container-toolkit-daemonset",
        "nvidia-container-toolkit-ctr",
        "toolkit",
        "container-toolkit",
    ),
    Operand(
        "nvidia-operator-validator",
        "nvidia-operator-validator",
        "validator",
        "operator-validator",
        part_of="gpu-operator",
    ),
    Operand(
        "nvidia-device-plugin-daemonset", "nvidia-device-plugin", "devicePlugin", "device-plugin"
    ),
    Operand(
        "nvidia-device-plugin-mps-control-daemon",
        "mps-control-daemon-ctr",
        "devicePlugin",
        "device-plugin",
        also="nvidia.com/mps.capable",
    ),
    Operand("nvidia-dcgm", "nvidia-dcgm-ctr", "dcgm", "dcgm", default=False),
    Operand("nvidia-dcgm-exporter", "nvidia-dcgm-exporter", "dcgmExporter", "dcgm-exporter"),
    Operand(
        "gpu-feature-discovery",
        "gpu-feature-discovery",
        "gfd",
        "gpu-feature-discovery",
        part_of="nvidia-gpu",
    ),
    Operand("nvidia-mig-manager", "nvidia-mig-manager", "migManager", "mig-manager"),
    Operand(
        "nvidia-node-status-exporter",
        "nvidia-node-status-exporter",
        "nodeStatusExporter",
        "node-status-exporter",
        default=False,
    ),
)


def enabled(policy: Json) -> tuple[Operand, ...]:
    """Return the operands that a ClusterPolicy enables; the validator is always enabled."""
    spec = policy.get("spec") or {}
    return tuple(
        operand
        for operand in OPERANDS
        if operand.key == "validator"
        or (spec.get(operand.key) or {}).get("enabled", operand.default)
    )


def is_ready(daemon_sets: list[Json]) -> bool:
    """Check that every operand is ready on every node on which it should run."""
    for item in daemon_sets:
        status = item.get("status") or {}
        if status.get("observedGeneration") != item["metadata"]["generation"]:
            return False
        if status.get("numberReady", 0) != status.get("desiredNumberScheduled"):
            return False
    return bool(daemon_sets)


def policy_status(ready: bool, namespace: str, before: Json, now: str, served: bool = True) -> Json:
    """Return the status of a ClusterPolicy.

    A condition keeps its transition time while its status doesn't change
    (controllers/clusterpolicy_controller.go, Reconcile). The condition for nodes without any label
    of Node Feature Discovery isn't simulated.

    Args:
        ready: True if all operands are ready.
        namespace: Namespace of the operator.
        before: Current status of the policy.
        now: Current time, RFC 3339.
        served: True if the cluster has nodes with GPUs.
    """
    well = "Reconciled" if served else "NoGPUNodes"
    old = {item["type"]: item for item in before.get("conditions") or []}
    conditions = []
    for kind, status, reason in (
        ("Ready", ready, well if ready else "OperandNotReady"),
        ("Error", False, "Ready" if ready else "OperandNotReady"),
    ):
        value = str(status)
        same = old.get(kind, {}).get("status") == value
        conditions.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": "simulated operands",
                "lastTransitionTime": old[kind]["lastTransitionTime"] if same else now,
            }
        )
    state = "ready" if ready else "notReady"
    return {"state": state, "namespace": namespace, "conditions": conditions}
