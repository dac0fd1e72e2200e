"""Rule GPU002: a GPU request must be equal to its limit."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context, Severity
from ..each import each_amount
from ..example import Example
from ..pod_spec import Container, Resource
from ..rule import Finding, Rule
from ..twin import (
    ENFORCED,
)
from . import VALIDATION


def _equal(request: Resource, container: Container, _: Context) -> Iterator[Finding]:
    limit = container.limits.get(request.name)
    if limit is None or request is limit or not (request.quantity and limit.quantity):
        return
    if request.quantity.milli != limit.quantity.milli:
        yield Finding(
            path=request.path,
            found=f"{request.quantity}, but a limit of {limit.quantity}",
            wanted=f"{limit.quantity}, equal to the limit",
            cure="Remove the request: the limit is also the request.",
        )


RULE = Rule(
    id="GPU002",
    title="A GPU request equals its limit",
    severity=Severity.MANDATORY,
    check=each_amount(_equal),
    why="GPUs cannot be overcommitted: if a container has both a request and a limit, the API "
    "server rejects a request that differs from the limit.",
    source=f"{VALIDATION} validateResourceRequirements",
)

TWIN = ENFORCED

EXAMPLE = Example(
    passing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      volumeMounts: [{name: shm, mountPath: /dev/shm}]
      resources:
        requests: {cpu: 4, memory: 32Gi, nvidia.com/gpu: 2}
        limits: {memory: 32Gi, nvidia.com/gpu: 2}
""",
    failing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi, nvidia.com/gpu: 1}
        limits: {memory: 32Gi, nvidia.com/gpu: 2}
""",
)
