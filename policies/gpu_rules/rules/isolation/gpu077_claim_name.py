"""Rule GPU077: a claim for GPUs must not have the name of a claim for other devices."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..claims import (
    CHOICES,
    IS_GENERATED,
    MAY_BE_OF_GPUS,
    OF_GPUS,
    is_claim,
    is_generated,
    least_cap,
    most_gpus,
    requests,
)
from ..example import Example
from ..pod_claims import of_other_devices, of_other_devices_cel
from ..resource_names import of_gpus
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin


def _check_claim_name(subject: Subject, context: Context) -> Iterator[Finding]:
    if not is_claim(subject):
        return
    # Names decide only what a maximum counts, and what the settings list as other claims.
    is_capped = least_cap(context) is not None
    if subject.name not in context.other_claims and not (
        is_capped and of_other_devices(subject.name, context)
    ):
        return
    # The name of a generated claim begins with that of its pod, which names its template.
    if is_generated(subject, context):
        return
    # Only a cap counts the devices of a claim. Without one, a class of unknown devices is accepted.
    is_known_gpu = any(of_gpus(request.device_class, context) for request in requests(subject))
    if is_known_gpu or (is_capped and most_gpus(subject, context)):
        yield Finding(
            path="metadata.name",
            found=f"{subject.name[:80]}, the name of a claim for other devices, but the claim is "
            "for GPUs",
            wanted="a name that names no other device, or a name with gpu in it",
            cure="Rename the claim, for example gpu-and-nic: then its pods count as GPU pods.",
        )


RULE = Rule(
    id="GPU077",
    title="A claim for GPUs isn't named like a claim for other devices",
    severity=Severity.MANDATORY,
    check=_check_claim_name,
    why="A policy sees the name of a pod's claim, not its devices. If that name is one of other "
    "devices, such as nic or rdma, the claim does not count for the maximum of a pod (GPU028); if "
    "otherClaims lists it, the pod counts as one without GPUs. So the rule speaks only of names in "
    "otherClaims, and of other devices if a maximum is set. Then such a claim must have only "
    "DeviceClasses that are known to be for other devices, by their names or by otherClaims.",
    source="the rules for pods with GPUs; k8s.io/api v0.34.4 core/v1/types.go PodResourceClaim",
)

_IS_CAPPED = '("maxGpusPerContainer" in variables.facts || "maxGpusPerPod" in variables.facts)'
_NAME = 'object.metadata.?name.orValue("")'

TWIN = Twin(
    cel.unless_empty(
        f"({cel.listed_as_other(_NAME)} || {_IS_CAPPED} && {of_other_devices_cel(_NAME)}) && "
        f"!{IS_GENERATED} && variables.requests.exists(r, "
        f"{CHOICES}.exists(x, {OF_GPUS} || {_IS_CAPPED} && {MAY_BE_OF_GPUS}))",
        '"found the name " + object.metadata.name + " on a claim for GPUs"',
    ),
    scopes=frozenset({Scope.CLAIMS}),
)

EXAMPLE = Example(
    passing="""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu-and-nic, namespace: team-a}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly: {deviceClassName: gpu.nvidia.com}
        - name: nic
          exactly: {deviceClassName: rdma.example.com}
""",
    failing="""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: rdma-nic, namespace: team-a}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly: {deviceClassName: gpu.nvidia.com}
""",
    settings={"maxGpusPerPod": 8},
)
