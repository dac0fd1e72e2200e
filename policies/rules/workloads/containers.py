"""The containers of a pod that request GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context
from ..pod_claims import gpu_claims, uses
from ..pod_spec import Container, ContainerRole
from ..resource_names import is_gpu
from ..rule import Subject


def gpu_containers(subject: Subject, context: Context) -> Iterator[Container]:
    """Yield the containers of a pod that request GPUs, by resources or by claims.

    An amount that is not known, or is invalid, counts as a request.
    """
    claims = frozenset(claim.name for claim in gpu_claims(subject, context))
    for container in subject.pod.containers if subject.pod else ():
        if container.role is not ContainerRole.EPHEMERAL and (
            _requests(container, context) or uses(container, claims)
        ):
            yield container


def _requests(container: Container, context: Context) -> bool:
    for name in container.resource_names:
        asked = container.effective(name)
        if asked is None or not is_gpu(name, context):
            continue
        if asked.quantity is None or asked.quantity.milli > 0:
            return True
    return False
