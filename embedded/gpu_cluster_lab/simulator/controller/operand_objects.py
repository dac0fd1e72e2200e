"""Objects that the GPU Operator creates for its operands. All functions are pure.

Source: NVIDIA/gpu-operator v24.3.0 and v26.7.0, controllers/object_controls.go and assets/*. `make
test-real` compares these objects with the objects that the real operator v24.3.0 creates from the
same policy.
"""

from __future__ import annotations

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller.operands import API_VERSION, MANAGED_BY, Operand

_PLUGIN, _STRATEGY = "nvidia-device-plugin-daemonset", "DEVICE_LIST_STRATEGY"
#: Operands that read the device plugin's configuration (gpu-operator, object_controls.go,
#: handleDevicePluginConfig).
CONFIGURED = (
    _PLUGIN,
    "nvidia-device-plugin-mps-control-daemon",
    "gpu-feature-discovery",
)
#: Names of ConfigMaps in the operator's own manifests (assets/state-mig-manager).
MIG_LAYOUTS, MIG_CLIENTS = "default-mig-parted-config", "default-gpu-clients"
#: Additional RuntimeClasses that the operator creates if CDI is enabled (assets/pre-requisites).
CDI_CLASSES = ("nvidia-cdi", "nvidia-legacy")


def _owner_references(policy: Json) -> list[Json]:
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


def _operand_image_name(section: Json) -> str:
    name = "/".join(filter(None, (section.get("repository"), section.get("image", "operand"))))
    version = str(section.get("version") or "latest")
    return f"{name}@{version}" if version.startswith("sha256:") else f"{name}:{version}"


def daemon_set(operand: Operand, policy: Json, namespace: str) -> Json:
    """Return the DaemonSet that the GPU Operator creates for an operand."""
    spec = policy.get("spec") or {}
    common, section = spec.get("daemonsets") or {}, spec.get(operand.key) or {}
    own_labels = operand.selector | operand.labels
    common_labels = common.get("labels") or {}
    # A DaemonSet's selector is immutable, so labels in the policy must not override its labels.
    pod_labels = {key: value for key, value in common_labels.items() if key not in operand.selector}
    notes = dict(common.get("annotations") or {})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": operand.name,
            "namespace": namespace,
            "labels": own_labels | common_labels | MANAGED_BY,
            "annotations": {**notes, marks.SIMULATED_OPERAND: "true"},
            "ownerReferences": _owner_references(policy),
        },
        "spec": {
            "selector": {"matchLabels": operand.selector},
            "updateStrategy": _update(operand, common),
            "template": {
                "metadata": {"labels": own_labels | pod_labels | MANAGED_BY, "annotations": notes},
                "spec": {
                    "nodeSelector": operand.node_selector,
                    "tolerations": common.get("tolerations")
                    or [{"key": marks.GPU, "operator": "Exists", "effect": "NoSchedule"}],
                    "priorityClassName": common.get("priorityClassName") or "system-node-critical",
                    "containers": _operand_containers(operand, spec, section),
                    "volumes": [
                        {"name": name, "configMap": {"name": name}}
                        for name in _config_maps(operand, spec)
                    ],
                },
            },
        },
    }


def _update(operand: Operand, common: Json) -> Json:
    """Return the update strategy of an operand's DaemonSet.

    The operator itself upgrades the driver node by node, so the driver's strategy is OnDelete
    (applyUpdateStrategyConfig).
    """
    if operand.key == "driver" or common.get("updateStrategy") == "OnDelete":
        return {"type": "OnDelete"}
    share = str((common.get("rollingUpdate") or {}).get("maxUnavailable") or "")
    if not share:
        return {"type": "RollingUpdate"}
    number = share if share.endswith("%") else int(share)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number}}


def _operand_containers(operand: Operand, spec: Json, section: Json) -> list[Json]:
    image, resources = _operand_image_name(section), section.get("resources") or {}
    own_container = {
        "name": operand.container,
        "image": image,
        "env": _operand_environment(operand, spec, section),
        "resources": resources,
    }
    config = (spec.get("devicePlugin") or {}).get("config") or {}
    if operand.name not in CONFIGURED or not config.get("name"):
        return [own_container]
    manager = {
        "name": "config-manager",
        "image": image,
        "env": [{"name": "DEFAULT_CONFIG", "value": config.get("default", "")}],
        "resources": resources,
    }
    return [own_container, manager]


def _operand_environment(operand: Operand, spec: Json, section: Json) -> list[Json]:
    """Return the environment of an operand: variables of the ClusterPolicy and of the operator."""
    # The MPS daemon uses the device plugin's section of the policy, but doesn't get the variables
    # in that section.
    declared = [] if operand.also else section.get("env") or []
    values = {item["name"]: item for item in declared}
    # A value in the policy overrides this default (v26.7.0, TransformDevicePlugin).
    if operand.name == _PLUGIN:
        cdi = (spec.get("cdi") or {}).get("enabled", True)
        default = "cdi-annotations,cdi-cri" if cdi else "envvar"
        values = {_STRATEGY: {"name": _STRATEGY, "value": default}} | values
    if operand.name in CONFIGURED:
        strategy = (spec.get("mig") or {}).get("strategy", "")
        config = ((spec.get("devicePlugin") or {}).get("config") or {}).get("name")
        added = {
            "MIG_STRATEGY": strategy,
            "CONFIG_FILE": "/config/config.yaml" if config else "",
        }
        values |= {key: {"name": key, "value": value} for key, value in added.items() if value}
    return list(values.values())


def _config_maps(operand: Operand, spec: Json) -> list[str]:
    section = spec.get(operand.key) or {}
    if operand.name in CONFIGURED:
        name = ((spec.get("devicePlugin") or {}).get("config") or {}).get("name")
        return [name] if name else []
    if operand.key == "migManager":
        layouts = (section.get("config") or {}).get("name") or MIG_LAYOUTS
        return [layouts, (section.get("gpuClientsConfig") or {}).get("name") or MIG_CLIENTS]
    return []


def runtime_classes(policy: Json) -> list[Json]:
    """Return the RuntimeClasses that the operator creates.

    The operator creates none if the container runtime uses the NRI plugin.
    """
    spec = policy.get("spec") or {}
    cdi = spec.get("cdi") or {}
    if cdi.get("nriPluginEnabled"):
        return []
    name = (spec.get("operator") or {}).get("runtimeClass") or "nvidia"
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {
                "name": class_name,
                "labels": MANAGED_BY,
                "ownerReferences": _owner_references(policy),
            },
            "handler": class_name,
        }
        for class_name in (name, *(CDI_CLASSES if cdi.get("enabled") else ()))
    ]
