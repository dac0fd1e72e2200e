"""Rule GPU015: a pod must request only GPU resources that the cluster's platform advertises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import (
    BY_CLASS,
    GPU,
    GPU_SHARED,
    HAMI_CORES,
    HAMI_MEMORY,
    HAMI_PERCENTAGE,
    MIG,
    PASSED_THROUGH,
    VCUDA_CORE,
    VCUDA_MEMORY,
)
from .. import cel
from ..each import each_container, each_pod, in_turn
from ..example import POD, Example
from ..pod_claims import gpu_claims
from ..pod_spec import Container, Pod
from ..resource_names import SOUNDS_LIKE_GPU, is_gpu
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, NAMES, NO_LIMIT
from ..twin import pods

_ADVERTISED: Final = {
    "device-plugin": frozenset({GPU, GPU_SHARED}),
    "gpu-operator": frozenset({GPU, GPU_SHARED, PASSED_THROUGH}),
    "gpu-manager": frozenset({VCUDA_CORE, VCUDA_MEMORY}),
    "hami": frozenset({GPU, HAMI_MEMORY, HAMI_PERCENTAGE, HAMI_CORES}),
    "dra": frozenset[str](),
}
"""GPU resources that a platform advertises, by the platform's name."""
_NO_CLAIMS: Final = frozenset({"device-plugin", "gpu-manager", "hami"})
"""Platforms without a driver that gives GPUs to claims (DRA)."""
_NO_MIG: Final = frozenset({"gpu-manager", "dra"})
"""Platforms that advertise no MIG devices by name."""


def _check_advertised(container: Container, context: Context) -> Iterator[Finding]:
    for name in sorted(container.asked_names):
        if context.platform in _ADVERTISED and _is_foreign(name, context.platform, context):
            yield Finding(
                path=f"{container.path}.resources",
                found=name,
                wanted=f"a resource that {context.platform} advertises",
                cure="Request a resource that the nodes have: otherwise the pod stays Pending.",
            )


def _is_foreign(name: str, platform: str, context: Context) -> bool:
    """Return whether a resource is one of GPUs that neither platform nor settings advertise."""
    if not is_gpu(name, context) or name in context.resource_names | context.devices.resources:
        return False
    if name.startswith(MIG):
        return platform in _NO_MIG
    if name.startswith(BY_CLASS):
        return _has_no_claims(context)
    return name not in _ADVERTISED[platform]


def _has_no_claims(context: Context) -> bool:
    """Return whether no driver gives GPUs to claims, as far as platform and settings say."""
    return context.platform in _NO_CLAIMS and not any(map(_is_class, context.resource_names))


def _check_claimed(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if _has_no_claims(context):
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
    "tencent.com/vcuda-core and vcuda-memory; no platform of this program advertises the resources "
    "of other vendors; a DRA driver advertises no resource, and without a DRA driver no claim is "
    "fulfilled. A pod that requests what the platform lacks never runs. If the cluster has several "
    "platforms, list the further resources, or the DeviceClasses of claims, in resourceNames.",
    source="NVIDIA k8s-device-plugin; tkestack gpu-manager pkg/types/types.go; NVIDIA "
    "k8s-dra-driver-gpu",
)

_PLATFORM_CEL = 'variables.facts[?"platform"].orValue("")'
_OF_PLATFORM = "".join(
    f"{_PLATFORM_CEL} == {cel.text(platform)} ? {cel.texts(names)} : "
    for platform, names in _ADVERTISED.items()
)
_SERVED_CEL = (
    f"{_PLATFORM_CEL} in {cel.texts(_NO_CLAIMS)} && "
    f'!{cel.parameter("resourceNames")}.exists(n, !n.contains("/"))'
)

_IS_FOREIGN = (
    f"{cel.is_gpu('n')} && !(n in {cel.parameter('resourceNames')}) && "
    f"(n.startsWith({cel.text(MIG)}) ? {_PLATFORM_CEL} in {cel.texts(_NO_MIG)} : "
    f"n.startsWith({cel.text(BY_CLASS)}) ? {_SERVED_CEL} : !(n in ({_OF_PLATFORM}[])))"
)
_FOREIGN_CEL = (
    f"({_PLATFORM_CEL} in {cel.texts(_ADVERTISED)} ? {cel.asked_names(_IS_FOREIGN)} : [])"
)

TWIN = pods(
    "("
    + cel.each_container(f"size({_FOREIGN_CEL}) > 0", f"{_FOREIGN_CEL}[0]")
    + f") + ({_SERVED_CEL} ? variables.gpuClaims.filter(r, {cel.claim_name('r')}"
    f'.matches({cel.text(SOUNDS_LIKE_GPU)})).map(r, "found the claim " + r.name) : [])',
    signs=(NAMES, CLAIMS, NO_LIMIT),
)

EXAMPLE = Example.edited(
    POD,
    ("32Gi, nvidia.com/gpu: 1", "32Gi, tencent.com/vcuda-core: 100"),
    settings={"platform": "device-plugin"},
)
