"""Rule GPU074: a container must use only claims that its pod declares, each once."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_pod, named
from ..example import Example, pod_with_claim
from ..pod_spec import Container, Pod
from ..rule import Finding, Rule, Subject
from ..twin import ENFORCED
from ..unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text
from . import VALIDATION

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def _check_claims(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    yield from _of_the_pod(pod)
    if sequence(at(pod.spec, "resources", "claims")):
        yield Finding(
            path=pod.under("spec.resources.claims"),
            found="claims in the resources of the pod as a whole",
            wanted="claims in the resources of containers",
            cure="Move the claims to the container that uses the devices.",
        )
    declared = pod.spec.get("resourceClaims")
    is_known = declared is not UNKNOWN and not holds_unknown(declared)
    names = {text(at(claim, "name")) for claim in sequence(declared)} if is_known else None
    for container in pod.resource_containers:
        yield from named(container, _of_a_container(container, names))


def _of_the_pod(pod: Pod) -> Iterator[Finding]:
    """Yield the faults of the claims that a pod declares."""
    names: set[str] = set()
    for index, raw in enumerate(sequence(pod.spec.get("resourceClaims"))):
        if raw is UNKNOWN:
            continue
        claim, place = mapping(raw), pod.under(f"spec.resourceClaims[{index}]")
        name = claim.get("name")
        if name is not UNKNOWN and (not text(name) or text(name) in names):
            yield Finding(
                path=f"{place}.name",
                found=f"{text(name)[:80]} twice" if text(name) else "no name",
                wanted="a unique name for each claim",
                cure="Rename the claim: containers refer to it by this name.",
            )
        names.add(text(name))
        sources = [field for field in _SOURCES if claim.get(field) is not None]
        if len(sources) != 1:
            yield Finding(
                path=place,
                found="a claim and a template" if sources else "neither a claim nor a template",
                wanted="one of " + " and ".join(_SOURCES),
                cure="Set the name of a ResourceClaim, or of a ResourceClaimTemplate.",
            )


def _of_a_container(container: Container, declared: set[str] | None) -> Iterator[Finding]:
    """Yield the faults of the claims that a container uses.

    Args:
        declared: Names of the claims that the pod declares, or None if they are not known yet.
    """
    used: set[tuple[str, str]] = set()
    for index, raw in enumerate(sequence(at(container.spec, "resources", "claims"))):
        name, request = at(raw, "name"), text(at(raw, "request"))
        if name is UNKNOWN or raw is UNKNOWN:
            continue
        place = f"{container.path}.resources.claims[{index}]"
        if declared is not None and text(name) not in declared:
            yield Finding(
                path=place,
                found=f"a claim {text(name)[:80]} that the pod doesn't declare",
                wanted="a name of the pod's resourceClaims",
                cure="Add the claim to resourceClaims of the pod.",
            )
        if any(
            text(name) == used_name and (request == which or not (request and which))
            for used_name, which in used
        ):
            yield Finding(
                path=place,
                found=f"the claim {text(name)[:80]} twice",
                wanted="each claim, or each of its requests, once",
                cure="Remove one of the two entries.",
            )
        used.add((text(name), request))


RULE = Rule(
    id="GPU074",
    title="A container uses the claims that its pod declares",
    severity=Severity.MANDATORY,
    check=each_pod(_check_claims),
    why="Claims for devices (DRA) are declared in resourceClaims of the pod, each with one "
    "claim or one template, and are used by containers. The API server rejects claims that "
    "are not declared, that are listed twice, or that are in the resources of the pod as a "
    "whole.",
    source=f"{VALIDATION} validateResourceClaimNames, validatePodResourceClaim, "
    "validatePodResources",
    whole=True,
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    pod_with_claim("one-gpu"), ("claims: [{name: gpu}]", "claims: [{name: gpus}]")
)
