"""Rule GPU028: a container and a pod must not request more GPUs than the configured maximum."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...context import Context, Severity
from ...kube.gpu_resources import VCUDA_CORE
from ...kube.quantity import show
from .. import cel
from ..claims import LEAST_CAP, least_cap
from ..each import each_container, each_pod, in_turn
from ..example import Example, pod_of_several_gpus
from ..pod_claims import gpu_claims
from ..pod_request import resource_requests
from ..pod_spec import Container, Pod
from ..resource_names import is_device
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from .room import CORES


def _gpus_of_amount(name: str, amount: Fraction, context: Context) -> Fraction:
    """Return an amount as a number of GPUs or MIG devices; vcuda-cores are fractions."""
    if name == VCUDA_CORE:
        return amount / CORES
    return amount if is_device(name, context) else Fraction(0)


def _capped_container(container: Container, context: Context) -> Iterator[Finding]:
    cap, requested = context.max_gpus_per_container, Fraction(0)
    for name in container.resource_names:
        resource = container.effective(name)
        if resource and resource.quantity:
            requested += _gpus_of_amount(name, resource.quantity.units, context)
    if cap is not None and requested > cap:
        yield Finding(
            path=f"{container.path}.resources.limits",
            found=f"{show(requested)} GPUs in one container",
            wanted=f"at most {cap}",
            cure="Request fewer GPUs, or raise the setting maxGpusPerContainer.",
        )


def _capped_pod(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    resources = resource_requests(pod, context)
    counted = [_gpus_of_amount(name, amount, context) for name, amount in resources.items()]
    claims = list(gpu_claims(subject, context))
    # GPU065 refuses a claim above the least cap, so a claim that nobody shows has no more.
    most = least_cap(context) or 0
    claimed = sum(most if claim.facts is None else claim.facts.most for claim in claims)
    total = sum(counted, Fraction(claimed))
    if context.max_gpus_per_pod is not None and total > context.max_gpus_per_pod:
        several = " Put all devices of the pod into one claim: GPU065 counts its requests."
        yield Finding(
            path=pod.under("spec"),
            found=f"{'up to ' if claims else ''}{show(total)} GPUs in one pod",
            wanted=f"at most {context.max_gpus_per_pod}",
            cure="Request fewer GPUs, or raise the setting maxGpusPerPod."
            + (several if claims else ""),
        )


RULE = Rule(
    id="GPU028",
    title="A container and a pod request no more GPUs than the configured maximum",
    severity=Severity.MANDATORY,
    check=in_turn(each_container(_capped_container), each_pod(_capped_pod)),
    why="maxGpusPerContainer and maxGpusPerPod limit how many GPUs one container and one pod "
    "may request. Parts of a GPU count as fractions, MIG devices as one GPU each, and "
    "claims (DRA) with the devices that their manifests request. A claim whose manifest is not "
    "checked together with the pod counts with the maximum of a claim (GPU065), because it may "
    "have as many; one whose name is that of other devices, such as nic, has none (GPU077).",
    source="the pack's settings; the pod's request as in GPU007",
    needs=frozenset({Need.CAPS}),
)

# The sums are in hundredths of a GPU: a device or MIG device counts 100, a vcuda-core counts 1.
_DEVICES = f"{cel.device_names('c')}.map(n, {cel.requested('c', 'n')} * 100).sum()"

_HUNDREDTHS = f"{_DEVICES} + {cel.asked('c', cel.text(VCUDA_CORE))}"

_DISTINCT = (
    'variables.deviceNames.transformList(i, n, n != "" && variables.deviceNames.indexOf(n) == i, n)'
)

_OF_NAME = cel.bound(
    "starting",
    f"variables.init.map(c, {cel.requested('c', 'n')})",
    cel.bound(
        "sidecars",
        f"variables.init.transformList(k, c, {cel.SIDECAR} ? starting[k] : 0)",
        cel.request("n", cel.requested("c", "n"), "starting", "sidecars"),
    ),
)

# Admission cannot read a claim, so each claim for GPUs counts with its maximum, as in the rule.
_TOTAL = (
    f"({_DISTINCT}.map(n, ({_OF_NAME}) * 100).sum() + variables.coreRequest"
    f" + size(variables.gpuClaims) * {LEAST_CAP} * 100)"
)

_CAP = 'int(variables.facts["{}"]) * 100'

TWIN = pods(
    '(!("maxGpusPerContainer" in variables.facts) ? [] : '
    + cel.each_container(
        f"{_HUNDREDTHS} > {_CAP.format('maxGpusPerContainer')}",
        '"more GPUs than " + variables.facts.maxGpusPerContainer',
    )
    + ') + (!("maxGpusPerPod" in variables.facts) ? [] : '
    + cel.unless_empty(
        f"{_TOTAL} > {_CAP.format('maxGpusPerPod')}",
        '"found more GPUs in one pod than " + variables.facts.maxGpusPerPod',
    )
    + ")",
    signs=PLACED,
)

EXAMPLE = Example.edited(
    pod_of_several_gpus("nvidia.com/gpu: 2"),
    ("nvidia.com/gpu: 2", "nvidia.com/gpu: 4"),
    settings={"maxGpusPerContainer": 2},
)
