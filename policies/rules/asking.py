"""Tests of whether a pod requests GPUs in any way, in Python and as CEL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import cel
from .context import Context
from .pod_request import claims_devices
from .pod_spec import Container, Pod
from .resource_names import OTHER_VENDORS, SOUNDS_LIKE_GPU, is_gpu, sounds_like_gpu


def may_ask(pod: Pod, context: Context) -> bool:
    """Return whether a pod requests a device that may be a GPU; unknown resources count as GPUs."""
    return _asks(pod, lambda name: is_gpu(name, context) or sounds_like_gpu(name))


def may_ask_pools(pod: Pod, context: Context) -> bool:
    """Return whether a pod requests a device that a pool of this stack may have.

    GPUs of another vendor don't count unless the cluster's settings name them. If a pod names its
    node, the kubelet ignores extended resources that the node does not have (kubernetes v1.34.4
    pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources).
    """
    own = context.resource_names
    return _asks(
        pod, lambda name: is_gpu(name, context) and (name in own or name not in OTHER_VENDORS)
    )


def _asks(pod: Pod, counts: Callable[[str], bool]) -> bool:
    return claims_devices(pod) or any(_names(container, counts) for container in pod.containers)


def _names(container: Container, counts: Callable[[str], bool]) -> bool:
    if not (container.requests_known and container.limits_known):
        return True
    return any(
        counts(name) and (resource.quantity is None or resource.quantity.milli != 0)
        for listed in (container.limits, container.requests)
        for name, resource in listed.items()
    )


def _asked(condition: str) -> str:
    """Return CEL that is true if a pod has resource claims or requests more than 0 of a resource.

    Requests without a limit count too: the API server accepts them for the resource of a
    DeviceClass, but not for extended resources.

    Args:
        condition: CEL that selects a resource by its name `n`.
    """
    either = " || ".join(
        f"{listed}.exists(n, {condition} && {cel.positive(f'{listed}[n]')})"
        for listed in (cel.LIMITS, cel.REQUESTS)
    )
    return (
        "(size(variables.spec.?resourceClaims.orValue([])) > 0 || "
        f"variables.containers.exists(c, {either}))"
    )


# CEL cannot measure how similar two names are, so every name that resembles a GPU resource counts.
MAY_ASK: Final = _asked(
    f"({cel.is_gpu('n')} || n.lowerAscii().matches({cel.text(SOUNDS_LIKE_GPU)}))"
)
MAY_ASK_POOLS: Final = _asked(
    f"({cel.is_gpu('n')} && (n in {cel.parameter('resourceNames')} || "
    f"!(n in {cel.texts(OTHER_VENDORS)})))"
)
