"""Rule GPU011: an ephemeral container must not have resources."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.pod_resources import ContainerRole
from ..each import each_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Rule
from ..twin import ENFORCED
from ..unknown import at, sequence
from . import VALIDATION


def _not_ephemeral(container: Container, _: Context) -> Iterator[Finding]:
    claims = sequence(at(container.spec, "resources", "claims"))
    for name in [*sorted(container.resource_names), *(["a claim"] if claims else [])]:
        yield Finding(
            path=f"{container.path}.resources",
            found=f"{name[:80]} in an ephemeral container",
            wanted="no resources",
            cure="Use an ordinary container: ephemeral containers cannot have resources.",
        )


RULE = Rule(
    id="GPU011",
    title="Ephemeral containers have no resources",
    severity=Severity.MANDATORY,
    check=each_container(_not_ephemeral, {ContainerRole.EPHEMERAL}),
    why="The API server rejects resources in ephemeral containers, also GPUs.",
    source=f"{VALIDATION} allowedEphemeralContainerFields",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    pod(
        "ephemeralContainers:\n    - name: debug\n      image: registry.example.com/cuda:13.0"
        "\n      command: [nvidia-smi]"
    ),
    ("command: [nvidia-smi]", "resources: {limits: {nvidia.com/gpu: 1}}"),
)
