"""Whether a pod asks for GPUs in any way: for a rule, and for its twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import cel
from .context import Context
from .pod_request import claims_devices
from .pod_spec import Container, Pod
from .resource_names import OTHER_VENDORS, SOUNDS_LIKE_GPU, is_gpu, sounds_like_gpu


def may_ask(pod: Pod, context: Context) -> bool:
    """Whether a pod asks for a device that may be a GPU, or does for all that is known of it."""
    return _asks(pod, lambda name: is_gpu(name, context) or sounds_like_gpu(name))


def may_ask_pools(pod: Pod, context: Context) -> bool:
    """Whether a pod asks for what a pool of this stack may offer, and not another vendor's GPUs.

    Where a pod names its node, kubelet overlooks extended resources that the node doesn't have
    (kubernetes v1.34.4 pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources).
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
    """CEL: whether a pod names claims, or a resource `n` above 0 for which a condition holds.

    The resource that a DeviceClass is may be requested without a limit; extended ones may not.
    """
    either = " || ".join(
        f"{listed}.exists(n, {condition} && {cel.positive(f'{listed}[n]')})"
        for listed in (cel.LIMITS, cel.REQUESTS)
    )
    return (
        "(size(variables.spec.?resourceClaims.orValue([])) > 0 || "
        f"variables.containers.exists(c, {either}))"
    )


# A name that only resembles that of a GPU resource counts as one, as far as CEL can tell.
MAY_ASK: Final = _asked(
    f"({cel.is_gpu('n')} || n.lowerAscii().matches({cel.text(SOUNDS_LIKE_GPU)}))"
)
MAY_ASK_POOLS: Final = _asked(
    f"({cel.is_gpu('n')} && (n in {cel.parameter('resourceNames')} || "
    f"!(n in {cel.texts(OTHER_VENDORS)})))"
)
