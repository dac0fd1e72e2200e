"""Whether a pod asks for GPUs in any way: for a rule, and for its twin."""

from __future__ import annotations

from typing import Final

from policies.rules import cel
from policies.rules.context import Context
from policies.rules.pod_request import claims_devices
from policies.rules.pod_spec import Container, Pod
from policies.rules.resource_names import SOUNDS_LIKE_GPU, is_gpu, sounds_like_gpu


def may_ask(pod: Pod, context: Context) -> bool:
    """Whether a pod asks for a device that may be a GPU, or does for all that is known of it."""
    return claims_devices(pod) or any(_asks(container, context) for container in pod.containers)


def _asks(container: Container, context: Context) -> bool:
    if not (container.requests_known and container.limits_known):
        return True
    return any(
        (is_gpu(name, context) or sounds_like_gpu(name))
        and (resource.quantity is None or resource.quantity.milli != 0)
        for listed in (container.limits, container.requests)
        for name, resource in listed.items()
    )


# A name that only resembles that of a GPU resource counts as one, as far as CEL can tell.
MAY_ASK: Final = (
    "(size(variables.spec.?resourceClaims.orValue([])) > 0 || "
    f"variables.containers.exists(c, {cel.LIMITS}.exists(n, ({cel.is_gpu('n')} || "
    f"n.lowerAscii().matches({cel.text(SOUNDS_LIKE_GPU)})) && "
    f"{cel.positive(f'{cel.LIMITS}[n]')})))"
)
