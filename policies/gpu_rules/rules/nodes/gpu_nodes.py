"""Read GPUs and taints from the manifest of a Node."""

from __future__ import annotations

from ...context import Context
from ...kube.gpu_resources import GPU
from ...kube.taints import NodeTaint
from ..pod_spec import resource_list
from ..resource_names import is_gpu
from ..rule import Subject
from ..unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

# Label that NVIDIA's GPU Feature Discovery and GPU Operator set on nodes with GPUs.
PRESENT = "nvidia.com/gpu.present"


def gpus_of(subject: Subject, context: Context) -> str:
    """Return the GPU resource that a Node has by its capacity or its label, or an empty text."""
    status = mapping(at(subject.manifest, "status"))
    for section in ("capacity", "allocatable"):
        for name, resource in resource_list(status.get(section)).items():
            if is_gpu(name, context) and resource.quantity and resource.quantity.milli > 0:
                return name
    labels = mapping(at(subject.manifest, "metadata", "labels"))
    return GPU if labels.get(PRESENT) == "true" else ""


def taint_keys(subject: Subject) -> list[str]:
    """Return the keys of the Node's taints that keep pods away."""
    taints = sequence(at(subject.manifest, "spec", "taints"))
    node_taints = [
        NodeTaint(text(at(taint, "key")), effect=text(at(taint, "effect"))) for taint in taints
    ]
    return [taint.key for taint in node_taints if taint.is_hard]


def taints_known(subject: Subject) -> bool:
    """Return whether all taints of a Node are known."""
    taints = at(subject.manifest, "spec", "taints")
    return taints is not UNKNOWN and not any(map(holds_unknown, sequence(taints)))


def is_node(subject: Subject) -> bool:
    """Return whether a manifest is a Node."""
    return subject.kind == "Node" and subject.group_version in ("v1", "")
