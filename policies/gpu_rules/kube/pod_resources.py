"""The resources that a pod takes from its node, as the scheduler counts them.

Source: k8s.io/component-helpers v0.36.3 resource/helpers.go (PodRequests and
AggregateContainerRequests), with the options that the scheduler of kubernetes v1.36.3 uses
(pkg/scheduler/framework/types.go, calculateResource).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from . import quantity
from .names import HUGE_PAGES, is_extended_resource

Json = Mapping[str, Any]
Requests = dict[str, int]
"""Amounts in thousandths, by the resource's name."""

_OF_POD: Final = ("cpu", "memory")


class ContainerRole(StrEnum):
    """The role of a container in its pod."""

    APP = "container"
    INIT = "init container"
    SIDECAR = "sidecar"
    EPHEMERAL = "ephemeral container"


def init_container_role(container: Json) -> ContainerRole:
    """Return the role of a container in `initContainers`: a sidecar if it is always restarted."""
    restarts = container.get("restartPolicy") == "Always"
    return ContainerRole.SIDECAR if restarts else ContainerRole.INIT


def total_request(requests: Iterable[tuple[ContainerRole, int]]) -> int:
    """Return what the containers of a pod request together of one resource.

    The result is the sum of app containers and sidecars, or the largest init container with the
    sidecars started before it, whichever is more.

    Args:
        requests: Role and request of each container; init containers and sidecars in their order.
    """
    running = sidecars = starting = 0
    for role, amount in requests:
        if role is ContainerRole.APP:
            running += amount
        elif role is ContainerRole.SIDECAR:
            running += amount
            sidecars += amount
            starting = max(starting, sidecars)
        elif role is ContainerRole.INIT:
            starting = max(starting, sidecars + amount)
    return max(running, starting)


def pod_requests(pod: Json) -> Requests:
    """Return a pod's effective request of each resource, in thousandths.

    Overhead and resources of the pod as a whole are included. While a container is resized, the
    largest of its old and new amounts counts. An amount that can't be read counts as 0.

    Args:
        pod: A Pod of the API server. Limits without a request count as requests, as
            SetDefaults_Pod (kubernetes v1.36.3 pkg/apis/core/v1/defaults.go) sets them.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    resizable = {
        reported.get("name"): reported
        for key in ("containerStatuses", "initContainerStatuses")
        for reported in status.get(key) or ()
    }
    containers = []
    for container in spec.get("initContainers") or ():
        role = init_container_role(container)
        reported = resizable.get(container.get("name")) if role is ContainerRole.SIDECAR else None
        containers.append((role, _with_resize(_declared_requests(container), reported, status)))
    for container in spec["containers"]:
        reported = resizable.get(container.get("name"))
        requests = _with_resize(_declared_requests(container), reported, status)
        containers.append((ContainerRole.APP, requests))
    names = {name for _, requests in containers for name in requests}
    total = {
        name: total_request((role, requests.get(name, 0)) for role, requests in containers)
        for name in names
    }
    whole = (spec.get("resources") or {}).get("requests") or {}
    if of_pod := {
        name: amount for name, amount in _read_amounts(whole).items() if _is_of_pod(name)
    }:
        resized = _with_resize(_read_amounts(whole), status, status)
        total |= {name: resized.get(name, 0) for name in of_pod}
    for name, amount in _read_amounts(spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return total


def device_requests(pod: Json) -> dict[str, int]:
    """Return a pod's effective request of each extended resource in whole units, without zeros."""
    return {
        name: units
        for name, amount in sorted(pod_requests(pod).items())
        if is_extended_resource(name) and (units := quantity.plausible_count(amount))
    }


def _declared_requests(container: Json) -> Requests:
    resources = container.get("resources") or {}
    return {**_read_amounts(resources.get("limits")), **_read_amounts(resources.get("requests"))}


def _with_resize(declared: Requests, reported: Json | None, status: Json) -> Requests:
    """Return the largest of declared, allocated and actual amounts, by resource.

    If the node can never fulfil the resize, the declared amounts don't count.

    Args:
        declared: Amounts in the spec.
        reported: Status of the container, or of the pod for its own resources.
        status: Status of the pod.
    """
    if reported is None or reported.get("resources") is None:
        return declared
    sources = [
        _read_amounts(reported["resources"].get("requests")),
        _read_amounts(reported.get("allocatedResources")),
    ]
    if not _is_resize_infeasible(status):
        sources.append(declared)
    names = {name for amounts in sources for name in amounts}
    return {name: max(amounts[name] for amounts in sources if name in amounts) for name in names}


def _is_resize_infeasible(status: Json) -> bool:
    reasons = (
        condition.get("reason")
        for condition in status.get("conditions") or ()
        if condition.get("type") == "PodResizePending"
    )
    return next(reasons, None) == "Infeasible"


def _is_of_pod(resource: str) -> bool:
    """Return whether Kubernetes supports a resource for the pod as a whole."""
    return resource in _OF_POD or resource.startswith(HUGE_PAGES)


def _read_amounts(resources: Json | None) -> Requests:
    return {name: quantity.read_milli(written) for name, written in (resources or {}).items()}
