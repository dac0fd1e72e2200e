"""What the GPU Operator makes from its ``ClusterPolicy``. Pure functions.

Names, labels and container names: NVIDIA/gpu-operator v26.7.0, assets/*/*daemonset.yaml; node
labels and order: controllers/state_manager.go, gpuStateLabels["container"], addState.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from lab.simulator import marks
from lab.simulator.api import Json

API_VERSION = "nvidia.com/v1"
POLICY = "cluster-policy"
POLICIES = f"/apis/{API_VERSION}/clusterpolicies"
MANAGED_BY = {"app.kubernetes.io/managed-by": "gpu-operator"}

PRESENT = "nvidia.com/gpu.present"
DEPLOY = "nvidia.com/gpu.deploy."
#: On a node: no operand at all.
OPERANDS_OFF = DEPLOY + "operands"
MIG_LAYOUT = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
#: What the operator puts on each GPU node of a container workload.
NODE_LABELS = {PRESENT: "true"} | {
    DEPLOY + name: "true"
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
}


@dataclass(frozen=True)
class Operand:
    """One DaemonSet.

    ``key``: its section of the policy; ``default``: enabled where it says not; ``also``: a further
    label that a node must have.
    """

    name: str
    container: str
    key: str
    deploy: str
    default: bool = True
    also: str = ""

    @property
    def node_selector(self) -> dict[str, str]:
        """Labels of the nodes that it runs on."""
        return {key: "true" for key in (DEPLOY + self.deploy, self.also) if key}


#: In the order in which they are made.
OPERANDS = (
    Operand("nvidia-driver-daemonset", "nvidia-driver-ctr", "driver", "driver"),
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
    Operand("gpu-feature-discovery", "gpu-feature-discovery", "gfd", "gpu-feature-discovery"),
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


def _owner(policy: Json) -> list[Json]:
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ClusterPolicy",
            "name": policy["metadata"]["name"],
            "uid": policy["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def _image(section: Json) -> str:
    name = "/".join(filter(None, (section.get("repository"), section.get("image", "operand"))))
    version = str(section.get("version") or "latest")
    return f"{name}@{version}" if version.startswith("sha256:") else f"{name}:{version}"


def daemon_set(operand: Operand, policy: Json, namespace: str) -> Json:
    """The DaemonSet of an operand."""
    spec = policy.get("spec") or {}
    common, section = spec.get("daemonsets") or {}, spec.get(operand.key) or {}
    labels = {"app": operand.name, **(common.get("labels") or {}), **MANAGED_BY}
    update: Json = {"type": common.get("updateStrategy") or "RollingUpdate"}
    if operand.key == "driver":
        update = {"type": "OnDelete"}  # the driver is upgraded node by node, by the operator
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": operand.name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {marks.SIMULATED_OPERAND: "true"},
            "ownerReferences": _owner(policy),
        },
        "spec": {
            "selector": {"matchLabels": {"app": operand.name}},
            "updateStrategy": update,
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": dict(common.get("annotations") or {}),
                },
                "spec": {
                    "nodeSelector": operand.node_selector,
                    "tolerations": common.get("tolerations")
                    or [{"key": marks.GPU, "operator": "Exists", "effect": "NoSchedule"}],
                    "priorityClassName": common.get("priorityClassName") or "system-node-critical",
                    "containers": [
                        {
                            "name": operand.container,
                            "image": _image(section),
                            "env": [*(section.get("env") or []), *_environment(operand, spec)],
                            "resources": section.get("resources") or {},
                        }
                    ],
                    "volumes": _volumes(operand, section),
                },
            },
        },
    }


def _environment(operand: Operand, spec: Json) -> list[Json]:
    """What the operator adds to its plugin (controllers/object_controls.go)."""
    if operand.key != "devicePlugin":
        return []
    default = ((spec.get("devicePlugin") or {}).get("config") or {}).get("default", "")
    strategy = (spec.get("mig") or {}).get("strategy", "")
    added = {"MIG_STRATEGY": strategy, "DEFAULT_CONFIG": default}
    return [{"name": name, "value": value} for name, value in added.items() if value]


def _volumes(operand: Operand, section: Json) -> list[Json]:
    name = (section.get("config") or {}).get("name") if operand.key == "devicePlugin" else ""
    return [{"name": name, "configMap": {"name": name}}] if name else []


def layouts(text: str) -> dict[str, str]:
    """MIG devices of one GPU by layout, in the form of `marks.MIG` (mig-parted, api/spec/v1)."""
    document = yaml.safe_load(text) or {}
    return {
        name: ",".join(
            f"{profile}={count}"
            for part in parts
            for profile, count in (part.get("mig-devices") or {}).items()
        )
        for name, parts in (document.get("mig-configs") or {}).items()
    }


def runtime_class(policy: Json) -> Json:
    """The RuntimeClass that the operator makes at run time."""
    name = ((policy.get("spec") or {}).get("operator") or {}).get("runtimeClass") or "nvidia"
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name, "labels": MANAGED_BY, "ownerReferences": _owner(policy)},
        "handler": name,
    }


def is_ready(daemon_sets: list[Json]) -> bool:
    """Whether every operand runs on every node that it should run on."""
    for item in daemon_sets:
        status = item.get("status") or {}
        if status.get("observedGeneration") != item["metadata"]["generation"]:
            return False
        if status.get("numberReady", 0) != status.get("desiredNumberScheduled"):
            return False
    return bool(daemon_sets)


def policy_status(ready: bool, namespace: str, before: Json, now: str) -> Json:
    """The policy's status; a condition keeps its time while it does not change."""
    old = {item["type"]: item for item in before.get("conditions") or []}
    conditions = []
    for kind, status, reason in (
        ("Ready", ready, "Reconciled" if ready else "OperandNotReady"),
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
