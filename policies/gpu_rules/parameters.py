"""Settings of the GPU rules: their JSON schema, and how to turn them into cluster facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from .context import ExemptionFacts
from .facts.host_folders import FOLDERS, HOST_PATH, expand
from .rules import RULES, Context, Mig, NodeTaint, PluginFacts, PoolFacts, Severity, Sharing

_TEXTS = {"type": "array", "items": {"type": "string"}}
_TAINT = "^[^=:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$"
_NODE_NAME = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_CAP = {"type": "integer", "minimum": 0}

RULE_FOLDER = "ruleFolder"
"""Name of the setting for the folder of user-defined rules.

The folder's path is relative to the file with the settings.
"""

IGNORED_PATHS = "ignorePaths"
"""Name of the setting for the files and folders that the checker leaves out.

The paths are relative to the file with the settings.
"""

# JSON schema of each setting of the GPU rules, by the setting's name.
PROPERTIES: Mapping[str, Any] = {
    "rules": {
        "type": "object",
        "description": "Severity of each rule, by rule id.",
        "properties": {
            rule.id: {
                "type": "string",
                "enum": [str(severity) for severity in Severity],
                "description": f"{rule.title} (default: {rule.severity})",
            }
            for rule in RULES.values()
        },
        "patternProperties": {
            "^GPU9[0-9]{2}$": {"type": "string", "enum": [str(severity) for severity in Severity]}
        },
        "additionalProperties": False,
    },
    "pools": {
        "type": "array",
        "description": "Pools of GPU nodes; default: the pools in the stack's gpu-cluster:cluster.",
        "items": {
            "type": "object",
            "required": ["name", "gpusPerNode"],
            "properties": {
                "name": {"type": "string"},
                "gpusPerNode": _CAP,
                "nodes": {
                    "type": ["integer", "array"],
                    "minimum": 0,
                    "items": {"type": "string", "pattern": _NODE_NAME},
                    "description": "names of the nodes, such as [gpu-1, gpu-2], or their number",
                },
                "nodeNames": {**_TEXTS, "description": "names of the nodes, if known"},
                "gpuMemoryMiB": {**_CAP, "description": "memory of one GPU in MiB"},
                "taints": {
                    "type": "array",
                    "items": {"type": "string", "pattern": _TAINT},
                    "description": "key=value:Effect or key:Effect, such as "
                    "nvidia.com/gpu=present:NoSchedule",
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": False,
        },
    },
    "platform": {
        "type": "string",
        "enum": ["device-plugin", "gpu-operator", "gpu-manager", "hami", "dra"],
        "description": "Software that advertises the GPUs; default: the platform of the stack.",
    },
    "plugin": {
        "type": "object",
        "description": "Configuration of NVIDIA's device plugin; default: as in the stack.",
        "properties": {
            "migStrategy": {"type": "string", "enum": [str(mig) for mig in Mig]},
            "sharing": {"type": "string", "enum": [str(sharing) for sharing in Sharing]},
            "renameByDefault": {"type": "boolean"},
            "replicas": {"type": "integer", "minimum": 1},
        },
        "additionalProperties": False,
    },
    "runtimeClass": {
        "type": "string",
        "description": "RuntimeClass that GPU pods must name; empty if nvidia is the default "
        "runtime; default: as in the stack.",
    },
    "runtimeClasses": {**_TEXTS, "description": "Further RuntimeClasses that GPU pods may name."},
    "resourceNames": {**_TEXTS, "description": "GPU resources in addition to the well-known ones."},
    "otherClaims": {
        **_TEXTS,
        "description": "Names of ResourceClaims, ResourceClaimTemplates and DeviceClasses without "
        "GPUs.",
    },
    "allowedHostPaths": {
        "type": "array",
        "items": {"type": "string", "pattern": HOST_PATH},
        "description": "Folders of nodes that pods with GPUs, or near GPUs, and PersistentVolumes "
        "may use; `/*` at the end stands for the folders directly below, and `default` for "
        f"{', '.join(f'`{path}`' for path in sorted(FOLDERS))}; default: `[default]`.",
    },
    "extendedResourceToleration": {
        "type": "boolean",
        "description": "Whether the API server runs the admission plugin "
        "ExtendedResourceToleration; default: false.",
    },
    "infrastructureNamespaces": {
        **_TEXTS,
        "description": "Namespaces that the rules trust, in addition to kube-system and to those "
        "that the stack creates or has adopted.",
    },
    "exemptions": {
        "type": "array",
        "description": "Rules that do not apply until a date, to objects that match all of the "
        "given "
        "namespaces, labels, images and hostPaths.",
        "items": {
            "type": "object",
            "required": ["rules", "until", "reason"],
            "properties": {
                "rules": {"type": "array", "items": {"type": "string", "pattern": "^GPU[0-9]{3}$"}},
                "until": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
                "reason": {"type": "string", "minLength": 1},
                "namespaces": {**_TEXTS, "description": "patterns in which * stands for any text"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "images": {**_TEXTS, "description": "patterns of the images of all containers"},
                "hostPaths": {**_TEXTS, "description": "patterns of all host paths of the pod"},
            },
            "additionalProperties": False,
        },
    },
    IGNORED_PATHS: {
        **_TEXTS,
        "description": "Files and folders that the checker leaves out, as patterns relative to "
        "this file: `testdata/` at any depth, `vendor/**`, `*.gen.yaml`.",
    },
    RULE_FOLDER: {
        "type": "string",
        "description": "Folder with your own rules (gpu9NN_<what>.py). Loading them runs their "
        "code.",
    },
    "maxGpusPerContainer": {
        **_CAP,
        "description": "Maximum number of GPUs per container; default: no limit.",
    },
    "maxGpusPerPod": {**_CAP, "description": "Maximum number of GPUs per pod; default: no limit."},
    "toolkitFloor": {
        "type": "string",
        "description": "Oldest container toolkit that may be deployed; default: "
        f"{Context().toolkit_floor}.",
    },
}


def context_by(settings: Mapping[str, Any], context: Context) -> Context:
    """Return a copy of cluster facts in which settings of the rules replace existing values.

    Args:
        settings: Settings that match the schema in `PROPERTIES`.
        context: Facts about the cluster that apply if the settings don't replace them.

    Raises:
        ValueError: The settings name a rule that does not exist.
    """
    _refuse_unknown(settings)
    levels = {key: Severity(value) for key, value in settings.get("rules", {}).items()}
    changes: dict[str, Any] = {"severities": {**context.severities, **levels}}
    plain = {
        "platform": "platform",
        "runtimeClass": "runtime_class",
        "extendedResourceToleration": "extended_resource_toleration",
        "toolkitFloor": "toolkit_floor",
    }
    sets = {
        "resourceNames": "resource_names",
        "infrastructureNamespaces": "infrastructure_namespaces",
        "runtimeClasses": "runtime_classes",
        "otherClaims": "other_claims",
    }
    changes |= {field: settings[name] for name, field in plain.items() if name in settings}
    if "allowedHostPaths" in settings:
        changes["allowed_host_paths"] = expand(settings["allowedHostPaths"])
    changes |= {
        field: frozenset(settings[name]) for name, field in sets.items() if name in settings
    }
    caps = {"maxGpusPerContainer": "max_gpus_per_container", "maxGpusPerPod": "max_gpus_per_pod"}
    changes |= {field: int(settings[name]) for name, field in caps.items() if name in settings}
    if "pools" in settings:
        changes["pools"] = tuple(map(_read_pool, settings["pools"]))
    if "exemptions" in settings:
        changes["exemptions"] = tuple(map(_read_exemption, settings["exemptions"]))
    if "plugin" in settings:
        changes["plugin"] = _read_plugin(settings["plugin"])
    return replace(context, **changes)


def _refuse_unknown(settings: Mapping[str, Any]) -> None:
    """Check that the rules that the settings name exist.

    The JSON schema accepts each id of the form GPU9NN, because user-defined rules have such ids.

    Raises:
        ValueError: The settings name a rule that does not exist.
    """
    rule_ids = {
        *settings.get("rules", {}),
        *(rule for exemption in settings.get("exemptions", ()) for rule in exemption["rules"]),
    }
    if missing := ", ".join(sorted(rule_ids - RULES.keys())):
        cure = f"give the folder of your own rules as {RULE_FOLDER}, or correct the name"
        raise ValueError(f"no rule {missing}; cure: {cure}")


def _read_exemption(settings: Mapping[str, Any]) -> ExemptionFacts:
    return ExemptionFacts(
        rules=frozenset(settings["rules"]),
        until=date.fromisoformat(settings["until"]),
        reason=settings["reason"],
        namespaces=tuple(settings.get("namespaces", ())),
        labels=dict(settings.get("labels", {})),
        images=tuple(settings.get("images", ())),
        host_paths=tuple(settings.get("hostPaths", ())),
    )


def _read_pool(settings: Mapping[str, Any]) -> PoolFacts:
    nodes = settings.get("nodes")
    names = nodes if isinstance(nodes, list | tuple) else settings.get("nodeNames", ())
    return PoolFacts(
        name=settings["name"],
        gpus_per_node=int(settings["gpusPerNode"]),
        taints=tuple(map(NodeTaint.parse, settings.get("taints", ()))),
        labels=dict(settings.get("labels", {})),
        nodes=len(nodes) if isinstance(nodes, list | tuple) else _whole_number(nodes),
        node_names=frozenset(names),
        gpu_memory_mib=_whole_number(settings.get("gpuMemoryMiB")),
    )


def _whole_number(value: Any) -> int | None:
    """Return a numeric setting as an int; the Pulumi engine passes all numbers as floats."""
    return None if value is None else int(value)


def _read_plugin(settings: Mapping[str, Any]) -> PluginFacts:
    return PluginFacts(
        mig=Mig(settings.get("migStrategy", Mig.NONE)),
        sharing=Sharing(settings.get("sharing", Sharing.NONE)),
        renamed=bool(settings.get("renameByDefault", False)),
        replicas=int(settings.get("replicas", 1)),
    )
