"""Nodes that have GPUs: their labels and taints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import resource_list
from policies.rules.pools import gpu_pools, hard_taints
from policies.rules.resource_names import GPU, is_gpu
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

_HARD = frozenset({"NoSchedule", "NoExecute"})
_PRESENT = "nvidia.com/gpu.present"  # set by NVIDIA's GPU feature discovery and operator


def _gpus(subject: Subject, context: Context) -> str:
    """The GPU resource that a Node has, by its capacity or its label; empty for none."""
    status = mapping(at(subject.manifest, "status"))
    for part in ("capacity", "allocatable"):
        for name, resource in resource_list(status.get(part)).items():
            if is_gpu(name, context) and resource.quantity and resource.quantity.milli > 0:
                return name
    labels = mapping(at(subject.manifest, "metadata", "labels"))
    return GPU if labels.get(_PRESENT) == "true" else ""


def _taint_keys(subject: Subject) -> list[str]:
    taints = sequence(at(subject.manifest, "spec", "taints"))
    return [text(at(each, "key")) for each in taints if text(at(each, "effect")) in _HARD]


def _taints_known(subject: Subject) -> bool:
    taints = at(subject.manifest, "spec", "taints")
    return taints is not UNKNOWN and not any(map(holds_unknown, sequence(taints)))


def _is_node(subject: Subject) -> bool:
    return subject.kind == "Node" and subject.group_version in ("v1", "")


def _kept_free(subject: Subject, context: Context) -> Iterator[Finding]:
    name = _gpus(subject, context) if _is_node(subject) else ""
    if not name or not _taints_known(subject):
        return
    if not _taint_keys(subject):
        yield Finding(
            path="spec.taints",
            found=f"no taint on a node with {name}",
            wanted=_wanted_taints(context),
            cure="Taint it, or every pod of the cluster may fill its cpu and memory.",
        )
    labels = at(subject.manifest, "metadata", "labels")
    wanted = [pool.labels for pool in gpu_pools(context) if pool.labels]
    if wanted and not holds_unknown(labels) and not any(_has(labels, each) for each in wanted):
        yield Finding(
            path="metadata.labels",
            found="labels of no pool with GPUs",
            wanted=" or ".join(", ".join(f"{k}={v}" for k, v in each.items()) for each in wanted),
            cure="Label it as its pool, or pods that select GPU nodes never come here.",
        )


def _wanted_taints(context: Context) -> str:
    """The taints of the pools with GPUs: a node with MIG devices has its pool's too."""
    taints = {str(taint): None for pool in gpu_pools(context) for taint in hard_taints(pool)}
    return " or ".join(taints) or f"{GPU}=present:NoSchedule"


def _has(labels: object, wanted: Mapping[str, str]) -> bool:
    own = mapping(labels)
    return all(own.get(key) == value for key, value in wanted.items())


def _key_is_resource(subject: Subject, context: Context) -> Iterator[Finding]:
    name = _gpus(subject, context) if _is_node(subject) else ""
    keys = _taint_keys(subject)
    if name and keys and _taints_known(subject):
        yield from _wrong_key(keys, "spec.taints", context)


def _pool_keys(_: Sequence[Subject], context: Context) -> Iterator[tuple[Subject, Finding]]:
    for index, pool in enumerate(context.pools):
        keys = [taint.key for taint in hard_taints(pool)]
        if pool.gpus_per_node and keys:
            manifest = {"kind": "Pool", "metadata": {"name": pool.name}}
            for finding in _wrong_key(keys, f"pools[{index}].taints", context):
                yield Subject.of(manifest), finding


def _wrong_key(keys: Sequence[str], path: str, context: Context) -> Iterator[Finding]:
    if not any(is_gpu(key, context) for key in keys):
        yield Finding(
            path=path,
            found=f"{', '.join(keys)[:120]}, none of which is a GPU resource",
            wanted=f"the resource's name as key, such as {GPU}",
            cure="Tools that add tolerations for a resource by its name do not fit other keys.",
        )


RULES = (
    Rule(
        id="GPU030",
        title="The taint of GPU nodes has the name of the resource",
        severity=Severity.ADVISORY,
        check=_key_is_resource,
        across=_pool_keys,
        why="The admission plugin ExtendedResourceToleration, NVIDIA's charts and most samples "
        "tolerate the taint whose key is the resource's name, and no other.",
        source="kubernetes v1.34.4 plugin/pkg/admission/extendedresourcetoleration/admission.go; "
        "NVIDIA gpu-operator v26.7.0 values daemonsets.tolerations",
    ),
    Rule(
        id="GPU031",
        title="A node with GPUs has the taint and the labels of its pool",
        severity=Severity.MANDATORY,
        check=_kept_free,
        why="The taint keeps other work away, the labels bring GPU work here; a node with only one "
        "of them is either full of other pods or never used.",
        source="k8s.io/api v0.34.4 core/v1/toleration.go; NVIDIA k8s-device-plugin README",
        whole=True,
    ),
)
