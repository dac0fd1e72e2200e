"""The containers of a pod that request GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context
from ..pod_spec import Container, ContainerRole, Pod
from ..resource_names import is_gpu


def gpu_containers(pod: Pod, context: Context) -> Iterator[Container]:
    """Yield the containers of a pod that request GPUs."""
    for container in pod.containers:
        for name in (
            container.resource_names if container.role is not ContainerRole.EPHEMERAL else ()
        ):
            asked = container.effective(name)
            if is_gpu(name, context) and asked and asked.quantity and asked.quantity.milli > 0:
                yield container
                break
