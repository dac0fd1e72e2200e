"""The resources that a pod as a whole requests from a node."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ..context import Context
from ..kube.pod_resources import total_request
from .pod_claims import gpu_claims
from .pod_spec import Container, Pod, Resource, resource_list
from .resource_names import is_gpu
from .rule import Subject

CLAIMED: Final = "GPUs of a claim"
"""Name of the GPUs of claims whose own manifests are not known."""


def effective_request(pod: Pod, name: str) -> Fraction:
    """Return the pod's effective request of a resource in units, as the scheduler counts it.

    Unknown and invalid amounts count as 0, so the result is a lower bound.
    """
    overhead = resource_list(pod.spec.get("overhead")).get(name)
    extra = overhead.quantity.units if overhead and overhead.quantity else Fraction(0)
    return request_of_containers(pod, name) + extra


def request_of_containers(pod: Pod, name: str) -> Fraction:
    """Return the pod's effective request of a resource without its overhead."""
    amounts = ((container.role, container.effective(name)) for container in pod.containers)
    total = total_request(
        (role, resource.quantity.milli if resource and resource.quantity else 0)
        for role, resource in amounts
    )
    return Fraction(total, 1000)


def requests_gpus(subject: Subject, context: Context) -> bool:
    """Return whether a pod counts as one that requests GPUs.

    An amount that is not known, or is invalid, counts, and so does each of `gpu_claims`.
    """
    pod = subject.pod
    return pod is not None and (
        requests_gpu_resources(pod, context) or any(True for _ in gpu_claims(subject, context))
    )


def requests_gpu_resources(pod: Pod, context: Context) -> bool:
    """Return whether a pod's resources, without its claims, request GPUs."""
    if any(asks_for_gpus(container, context) for container in pod.resource_containers):
        return True
    overhead = resource_list(pod.spec.get("overhead"))
    return any(is_request(overhead[name]) for name in _gpu_names(pod, context) if name in overhead)


def asks_for_gpus(container: Container, context: Context) -> bool:
    """Return whether a container's resources, without its claims, request GPUs."""
    named = (
        container.effective(name) for name in container.resource_names if is_gpu(name, context)
    )
    return any(resource is not None and is_request(resource) for resource in named)


def is_request(resource: Resource) -> bool:
    """Return whether an amount is not 0; a negative amount is invalid, and counts."""
    return resource.quantity is None or resource.quantity.milli != 0


def gpu_requests(subject: Subject, context: Context) -> dict[str, Fraction]:
    """Return how many GPUs a pod requests, by resource and by DeviceClass, without amounts of 0.

    A claim whose manifest is not known counts as one GPU under the name `CLAIMED`.
    """
    if subject.pod is None:
        return {}
    return resource_requests(subject.pod, context) | claim_requests(subject, context)


def claim_requests(
    subject: Subject, context: Context, *, held: bool = False
) -> dict[str, Fraction]:
    """Return how many GPUs a pod requests by claims, by DeviceClass.

    Args:
        subject: The object with the pod.
        held: Whether to leave out claims that take no GPU for themselves (adminAccess).
    """
    requests: dict[str, Fraction] = {}
    for claim in gpu_claims(subject, context):
        if held and claim.shared:
            continue
        known_gpus = claim.facts.gpus if claim.facts else {}
        for name, count in (known_gpus or {CLAIMED: 1}).items():
            requests[name] = requests.get(name, Fraction(0)) + count
    return requests


def resource_requests(pod: Pod, context: Context) -> dict[str, Fraction]:
    """Return the pod's effective request of each GPU resource, without amounts of 0."""
    names = sorted(_gpu_names(pod, context))
    requests = {name: effective_request(pod, name) for name in names}
    return {name: amount for name, amount in requests.items() if amount > 0}


def _gpu_names(pod: Pod, context: Context) -> set[str]:
    return {
        name
        for container in pod.resource_containers
        for name in container.resource_names
        if is_gpu(name, context)
    }
