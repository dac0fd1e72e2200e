"""What the GPU Operator makes from its ``ClusterPolicy``. Pure functions.

Names, labels and container names: NVIDIA/gpu-operator v26.7.0, assets/*/*daemonset.yaml; node
labels and order: controllers/state_manager.go, gpuStateLabels["container"], addState.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.simulator.api import Json

API_VERSION = "nvidia.com/v1"
POLICY = "cluster-policy"
DRIVER = "nvidia-driver-daemonset"
POLICIES = f"/apis/{API_VERSION}/clusterpolicies"
MANAGED_BY = {"app.kubernetes.io/managed-by": "gpu-operator"}

PRESENT = "nvidia.com/gpu.present"
DEPLOY = "nvidia.com/gpu.deploy."
#: On a node: no operand at all.
OPERANDS_OFF = DEPLOY + "operands"
MIG_LAYOUT = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
#: The layout without MIG devices.
MIG_DISABLED = "all-disabled"
#: What the operator puts on each GPU node of a container workload, in addition to `PRESENT`.
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
    """One DaemonSet.

    ``key``: its section of the policy; ``default``: enabled where it says not; ``also``: a further
    label that a node must have; ``part_of``: a label of its pods that its selector has, too;
    ``labels``: others.
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
        """Labels of its pods by which it knows them."""
        part = {"app.kubernetes.io/part-of": self.part_of} if self.part_of else {}
        return {"app": self.name, **part}

    @property
    def node_selector(self) -> dict[str, str]:
        """Labels of the nodes that it runs on."""
        return {key: "true" for key in (DEPLOY + self.deploy, self.also) if key}


#: In the order in which they are made.
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
    """The operands that a policy asks for; the validator always runs."""
    spec = policy.get("spec") or {}
    return tuple(
        operand
        for operand in OPERANDS
        if operand.key == "validator"
        or (spec.get(operand.key) or {}).get("enabled", operand.default)
    )


def is_ready(daemon_sets: list[Json]) -> bool:
    """Whether every operand runs on every node that it should run on."""
    for item in daemon_sets:
        status = item.get("status") or {}
        if status.get("observedGeneration") != item["metadata"]["generation"]:
            return False
        if status.get("numberReady", 0) != status.get("desiredNumberScheduled"):
            return False
    return bool(daemon_sets)


def policy_status(ready: bool, namespace: str, before: Json, now: str, served: bool = True) -> Json:
    """The policy's status; a condition keeps its time while it does not change.

    ``served``: whether there are nodes with GPUs (controllers/clusterpolicy_controller.go,
    Reconcile; that no node has labels of Node Feature Discovery isn't simulated).
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
