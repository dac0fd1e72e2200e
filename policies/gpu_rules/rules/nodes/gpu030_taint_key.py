"""Rule GPU030: the taint of GPU nodes should have the name of the GPU resource as its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from ..example import Example
from ..pools import hard_taints
from ..resource_names import is_gpu
from ..rule import Finding, Rule, Subject
from ..twin import NODES_JOIN
from .gpu_nodes import gpus_of, is_node, taint_keys, taints_known


def _key_is_resource(subject: Subject, context: Context) -> Iterator[Finding]:
    name = gpus_of(subject, context) if is_node(subject) else ""
    keys = taint_keys(subject)
    if name and keys and taints_known(subject):
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
            wanted=f"the name of the resource as key, such as {GPU}",
            cure="Change the key: tools that add tolerations use the resource's name as key.",
        )


RULE = Rule(
    id="GPU030",
    title="The key of the GPU nodes' taint is the name of the resource",
    severity=Severity.ADVISORY,
    check=_key_is_resource,
    across=_pool_keys,
    why="The admission plugin ExtendedResourceToleration, NVIDIA's charts and most examples "
    "tolerate only the taint whose key is the name of the GPU resource.",
    source="kubernetes v1.34.4 plugin/pkg/admission/extendedresourcetoleration/admission.go; "
    "NVIDIA gpu-operator v26.7.0 values daemonsets.tolerations",
)

TWIN = NODES_JOIN

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {nvidia.com/gpu.present: "true"}
spec:
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
""",
    ("key: nvidia.com/gpu, value: present", "key: example.com/gpu"),
)
