"""Write the file with the settings of the rules: complete, as a JSON schema, or for a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from .kube.gpu_resources import is_gpu_device
from .kube.quantity import QuantityError, parse
from .kube.taints import NodeTaint
from .parameters import PROPERTIES
from .rules.observed import SYSTEM_TOLERATIONS
from .rules.unknown import at, mapping, sequence, text

EXAMPLES: Final[Mapping[str, Any]] = {
    "rules": {"GPU050": "off", "GPU026": "mandatory"},
    "pools": [
        {
            "name": "a100",
            "gpusPerNode": 8,
            "nodes": ["gpu-1", "gpu-2"],
            "gpuMemoryMiB": 81920,
            "taints": ["nvidia.com/gpu=present:NoSchedule"],
            "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        },
        {"name": "t4", "gpusPerNode": 1, "nodes": 3},
    ],
    "platform": "device-plugin",
    "plugin": {
        "migStrategy": "none",
        "sharing": "time-slicing",
        "renameByDefault": False,
        "replicas": 4,
    },
    "runtimeClass": "nvidia",
    "runtimeClasses": ["kata-nvidia"],
    "resourceNames": ["example.com/npu", "npu.example.com"],
    "otherClaims": ["nic"],
    "allowedHostPaths": ["default", "/data/*"],
    "extendedResourceToleration": False,
    "infrastructureNamespaces": ["gpu-operator", "monitoring"],
    "exemptions": [
        {
            "rules": ["GPU036"],
            "until": "2030-12-31",
            "reason": "the plugin of another vendor needs its devices",
            "namespaces": ["plugins"],
            "labels": {"app": "plugin"},
            "images": ["registry.example.com/plugin:*"],
            "hostPaths": ["/dev/dri*"],
        }
    ],
    "ignorePaths": ["testdata/", "vendor/**"],
    "ruleFolder": "rules",
    "maxGpusPerContainer": 8,
    "maxGpusPerPod": 8,
    "toolkitFloor": "1.19.1",
}
"""An example of each setting, by its name."""
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
"""Labels of GPU Feature Discovery: NVIDIA k8s-device-plugin docs/gpu-feature-discovery/README.md;
the memory of one GPU is in MiB.
"""
_NO_NAME: Final = re.compile("[^a-z0-9]+")


def complete() -> str:
    """Return a file with every setting, each with its meaning as a comment, as YAML."""
    sections = ["# Settings of the GPU rules, as in .gpu-rules.yaml. Delete what you don't need.\n"]
    for name, schema in PROPERTIES.items():
        sections.append(f"# {schema['description']}\n{_yaml_text({name: EXAMPLES[name]})}")
    return "\n".join(sections)


def schema() -> str:
    """Return the JSON schema of the file, for editors."""
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of the GPU rules",
        "type": "object",
        "properties": {
            name: {**definition, "examples": [EXAMPLES[name]]}
            for name, definition in PROPERTIES.items()
        },
        "additionalProperties": False,
    }
    return json.dumps(document, indent=2) + "\n"


def of_nodes(nodes: Iterable[Mapping[str, object]]) -> str:
    """Return a file with the pools of a cluster, as YAML.

    Nodes with the same GPUs, taints and product are one pool. Taints of node conditions, which come
    and go, are left out.

    Args:
        nodes: Node objects of the cluster; those without GPUs are left out.
    """
    pools: dict[str, dict[str, Any]] = {}
    names: dict[str, list[str]] = {}
    for node in nodes:
        if pool := _pool_of_node(node):
            key = json.dumps(pool, sort_keys=True)
            pools.setdefault(key, pool)
            names.setdefault(key, []).append(text(at(node, "metadata", "name")))
    used_names: dict[str, int] = {}
    listed = []
    for key, pool in pools.items():
        name = pool.pop("name")
        used_names[name] = used_names.get(name, 0) + 1
        suffix = f"-{used_names[name]}" if used_names[name] > 1 else ""
        listed.append({"name": name + suffix, **pool, "nodes": names[key]})
    return _yaml_text({"pools": listed})


def _label_number(label: object) -> int:
    """Return the whole number in a label that GPU Feature Discovery wrote; 0 if it is none."""
    value = text(label)
    return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else 0


def _pool_of_node(node: Mapping[str, object]) -> dict[str, Any] | None:
    """Return a pool of one node without the node's name, or None for a node without GPUs."""
    amounts = mapping(at(node, "status", "capacity"))
    gpus = {name: _whole_units(amount) for name, amount in amounts.items() if is_gpu_device(name)}
    if not any(gpus.values()):
        return None
    labels = mapping(at(node, "metadata", "labels"))
    product, memory = text(labels.get(_PRODUCT)), _label_number(labels.get(_MEMORY))
    pool: dict[str, Any] = {
        "name": _NO_NAME.sub("-", product.lower()).strip("-") or "gpu",
        "gpusPerNode": max(gpus.values()),
    }
    if memory:
        pool["gpuMemoryMiB"] = memory
    taints = [
        str(NodeTaint.of({**taint, "key": text(taint.get("key"))}))
        for taint in map(mapping, sequence(at(node, "spec", "taints")))
        if not text(taint.get("key")).startswith(SYSTEM_TOLERATIONS)
    ]
    if taints:
        pool["taints"] = taints
    if product:
        pool["labels"] = {_PRODUCT: product}
    return pool


def _whole_units(amount: object) -> int:
    try:
        return int(parse(amount).units)
    except QuantityError:
        return 0


def _yaml_text(settings: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(settings), sort_keys=False, width=100)
