"""Rule GPU063: a pod with NVIDIA's RuntimeClass must request GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from .. import cel
from ..each import each_pod
from ..example import Example, pod_without_gpus
from ..gpus import Gpus, gpus_of
from ..pod_request import requests_gpu_resources
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import CONTAINERS, HAS_GPUS, Sign
from ..twin import pods
from ..unknown import text

# RuntimeClasses of gpu-operator v26.7.0: assets/state-container-toolkit, and those for CDI.
_CLASSES = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy"})


def _check_request(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    name = text(pod.spec.get("runtimeClassName"))
    known = gpus_of(subject, context) is not Gpus.LATER
    lacks = known and not requests_gpu_resources(pod, context)
    if name and name in _CLASSES | {context.runtime_class} and lacks:
        yield Finding(
            path=pod.under("spec.runtimeClassName"),
            found=f"{name} in a pod that requests no GPU resource",
            wanted="no RuntimeClass of NVIDIA, or GPUs in limits",
            cure="Remove it: with an image that sets NVIDIA_VISIBLE_DEVICES, the container gets "
            "all GPUs.",
        )


RULE = Rule(
    id="GPU063",
    title="A pod with NVIDIA's RuntimeClass requests GPUs",
    severity=Severity.MANDATORY,
    check=each_pod(_check_request, when=Subject.is_workload),
    why="NVIDIA's runtime gives a container the devices that its image names, and CUDA images "
    "set NVIDIA_VISIBLE_DEVICES=all. If the container has no GPU in its limits, the "
    "scheduler does not count these GPUs, and the device plugin assigns them to other "
    "containers, too. That holds for pods with claims (DRA), too, which need no RuntimeClass: the "
    "container engine adds their devices itself (CDI).",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go DevicesFromEnvvars; "
    "gpu-operator v26.7.0 assets/state-container-toolkit",
    whole=True,
)

# A limit of 0 requests no GPU.
_SOME = f"{HAS_GPUS} && {cel.positive(f'{cel.LIMITS}[{cel.text(GPU)}]')}"
_CLASS = 'variables.spec.?runtimeClassName.orValue("")'

TWIN = pods(
    cel.in_workloads(
        cel.unless_empty(
            f'({_CLASS} in {cel.texts(_CLASSES)} || ({_CLASS} != "" && '
            f'{_CLASS} == variables.facts[?"runtimeClass"].orValue(""))) && !variables.hasGpus',
            f'"found " + {_CLASS} + " in a pod that requests no GPU resource"',
        )
    ),
    signs=(Sign(f"has(object.spec.runtimeClassName) && !{CONTAINERS}.exists(c, {_SOME})"),),
)

EXAMPLE = Example.edited(
    pod_without_gpus(("name: train", "name: train, namespace: team-a")),
    ("spec:", "spec:\n  runtimeClassName: nvidia"),
)
