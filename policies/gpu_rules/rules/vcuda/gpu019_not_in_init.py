"""Rule GPU019: init containers and sidecars must not request vcuda resources."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import is_vcuda
from ...kube.pod_resources import ContainerRole
from .. import cel
from ..each import STARTING, each_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods
from .asked import (
    NAMES_OF_VCUDA,
)


def _not_in_init(container: Container, _: Context) -> Iterator[Finding]:
    for name in sorted(filter(is_vcuda, container.asked_names)):
        yield Finding(
            path=f"{container.path}.resources",
            found=f"{name} in an {ContainerRole.INIT}",
            wanted=f"{name} only in app containers",
            cure="Move the GPU work to an app container: gpu-manager ignores other containers.",
        )


RULE = Rule(
    id="GPU019",
    title="No init container or sidecar requests vcuda resources",
    severity=Severity.MANDATORY,
    check=each_container(_not_in_init, STARTING),
    why="gpu-manager searches only the pod's app containers. An init container or sidecar that "
    "requests vcuda resources fails with `candidate pod not found`.",
    source="tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go Allocate",
    needs=frozenset({Need.GPU_MANAGER}),
)

TWIN = pods(
    cel.each_container(
        cel.asks_for(f"n in {NAMES_OF_VCUDA}"), '"vcuda in an init container"', "variables.init"
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    pod(
        "initContainers:\n    - name: warm-up\n      image: registry.example.com/cuda:13.0"
        "\n      resources:\n        requests: {cpu: 4, memory: 32Gi}"
        "\n        limits: {memory: 32Gi}",
        limits="tencent.com/vcuda-core: 100",
    ),
    ("limits: {memory: 32Gi}", "limits: {memory: 32Gi, tencent.com/vcuda-core: 100}"),
    settings={"platform": "gpu-manager"},
)
