"""Rule GPU020: a pod must not have annotations by which GPUs are assigned to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from .. import cel
from ..each import each_pod
from ..example import POD, Example, edited
from ..observed import ASSIGNED
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import ANNOTATIONS, Sign
from ..twin import pods
from ..unknown import mapping

ASSIGNING: Final = rf"^cdi[.]k8s[.]io/|{ASSIGNED}"
"""Pattern of the annotations that give a pod devices, past its requests."""


def _not_preassigned(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    for key in mapping(pod.metadata.get("annotations")):
        if re.search(ASSIGNING, key):
            yield Finding(
                path=pod.under(f"metadata.annotations[{key}]"),
                found="an annotation by which GPUs are assigned",
                wanted="none",
                cure=f"Remove it and request {GPU} in limits; from a copy of a running pod, remove "
                "what its scheduler wrote.",
            )


RULE = Rule(
    id="GPU020",
    title="A pod has no annotations by which GPUs are assigned",
    severity=Severity.MANDATORY,
    check=each_pod(_not_preassigned, when=Subject.is_workload),
    why="Under CRI-O, a container gets the annotations of its pod, and the NVIDIA runtime gives it "
    "the devices that cdi.k8s.io/… names, whatever it requests. The schedulers of HAMi and "
    "gpu-manager write into annotations which GPUs a pod gets and how much of them; their device "
    "plugins believe these annotations, whoever wrote them. gpu-admission rejects a pod that "
    "already has its annotations, such as a copy of a running pod. At admission, only who may "
    "change pods in all namespaces, as these schedulers may, adds such an annotation later.",
    source="cri-o internal/factory/container/container.go SpecAddAnnotations; "
    "nvidia-container-toolkit v1.20.2 internal/config/image/cuda_image.go VisibleDevices; "
    "Project-HAMi HAMi 4707fb02 pkg/util/util.go GetPendingPod and issue 3041; tkestack "
    "gpu-admission pkg/predicate/gpu_predicate.go",
)

TWIN = pods(
    cel.in_workloads(
        f"variables.annotations.filter(k, k.matches({cel.text(ASSIGNING)}))"
        '.map(k, "found annotation " + k)'
    ),
    signs=(Sign(f"{ANNOTATIONS}.exists(k, k.matches({cel.text(ASSIGNING)}))"),),
)

EXAMPLE = Example.edited(
    edited(
        POD,
        (
            "metadata: {name: train}",
            "metadata:\n  name: train\n  annotations: {hami.io/gpu-scheduler-policy: binpack}",
        ),
    ),
    ("hami.io/gpu-scheduler-policy: binpack", "cdi.k8s.io/train: nvidia.com/gpu=all"),
)
