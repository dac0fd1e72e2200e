"""Rule GPU015: a pod must request only GPU resources that the cluster's platform advertises."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import (
    GPU,
    GPU_SHARED,
    HAMI_CORES,
    HAMI_MEMORY,
    HAMI_PERCENTAGE,
    VCUDA_CORE,
    VCUDA_MEMORY,
)
from .. import cel
from ..each import each_container, each_pod, in_turn
from ..example import POD, Example
from ..pod_claims import gpu_claims
from ..pod_spec import Container, Pod
from ..resource_names import SOUNDS_LIKE_GPU
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, NAMES
from ..twin import pods

_VCUDA = frozenset({VCUDA_CORE, VCUDA_MEMORY})
_PLUGIN = frozenset({GPU, GPU_SHARED})
_HAMI = frozenset({HAMI_MEMORY, HAMI_PERCENTAGE, HAMI_CORES})
_FOREIGN = {
    "device-plugin": _VCUDA | _HAMI,
    "gpu-operator": _VCUDA | _HAMI,
    "gpu-manager": _PLUGIN | _HAMI,
    "hami": _VCUDA | {GPU_SHARED},
    "dra": _VCUDA | _PLUGIN | _HAMI,
}
"""GPU resources that a platform does not advertise, by the platform's name."""
_NO_CLAIMS = frozenset({"device-plugin", "gpu-manager", "hami"})
"""Platforms without a driver that gives GPUs to claims (DRA)."""


def _check_advertised(container: Container, context: Context) -> Iterator[Finding]:
    foreign = _FOREIGN.get(context.platform or "", frozenset()) - context.resource_names
    for name in sorted(foreign & container.asked_names):
        yield Finding(
            path=f"{container.path}.resources",
            found=name,
            wanted=f"a resource that {context.platform} advertises",
            cure="Request a resource that the nodes have: otherwise the pod stays Pending.",
        )


def _check_claimed(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if context.platform in _NO_CLAIMS and not any(map(_is_class, context.resource_names)):
        for claim in gpu_claims(subject, context):
            if claim.sure:
                yield Finding(
                    path=pod.under("spec.resourceClaims"),
                    found=f"the claim {claim.name} for GPUs",
                    wanted=f"a resource that {context.platform} advertises",
                    cure="Request a resource instead: without a DRA driver for GPUs, the pod "
                    "stays Pending.",
                )


def _is_class(name: str) -> bool:
    """Return whether a name in the settings is that of a DeviceClass, which has no slash."""
    return "/" not in name


RULE = Rule(
    id="GPU015",
    title="The cluster's platform advertises the GPU resource",
    severity=Severity.MANDATORY,
    check=in_turn(each_container(_check_advertised), each_pod(_check_claimed)),
    why="NVIDIA's device plugin advertises nvidia.com/gpu; gpu-manager advertises "
    "tencent.com/vcuda-core and vcuda-memory; a DRA driver advertises neither, and without "
    "a DRA driver no claim is fulfilled. A pod that requests what the platform lacks never "
    "runs. If the cluster has several platforms, list the further resources, or the "
    "DeviceClasses of claims, in resourceNames.",
    source="NVIDIA k8s-device-plugin; tkestack gpu-manager pkg/types/types.go; NVIDIA "
    "k8s-dra-driver-gpu",
)

_OF_PLATFORM = "".join(
    f"variables.facts.platform == {cel.text(platform)} ? {cel.texts(names)} : "
    for platform, names in _FOREIGN.items()
)

_FOREIGN_CEL = (
    f'(!("platform" in variables.facts) ? [] : {_OF_PLATFORM}[])'
    f".filter(n, !(n in {cel.parameter('resourceNames')}))"
)

_SERVED_CEL = (
    f'variables.facts[?"platform"].orValue("") in {cel.texts(_NO_CLAIMS)} && '
    f'!{cel.parameter("resourceNames")}.exists(n, !n.contains("/"))'
)

TWIN = pods(
    "("
    + cel.each_container(
        f"{_FOREIGN_CEL}.exists(f, {cel.asks_for('n == f')})",
        f"{_FOREIGN_CEL}.filter(f, {cel.asks_for('n == f')})[0]",
    )
    + f") + ({_SERVED_CEL} ? variables.gpuClaims.filter(r, {cel.claim_name('r')}"
    f'.matches({cel.text(SOUNDS_LIKE_GPU)})).map(r, "found the claim " + r.name) : [])',
    signs=(NAMES, CLAIMS),
)

EXAMPLE = Example.edited(
    POD,
    ("32Gi, nvidia.com/gpu: 1", "32Gi, tencent.com/vcuda-core: 100"),
    settings={"platform": "device-plugin"},
)
