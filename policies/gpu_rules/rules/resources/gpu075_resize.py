"""Rule GPU075: a container's resize policy must name only CPU and memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_container
from ..example import Example, pod
from ..pod_spec import HAVE_RESOURCES, Container
from ..rule import Finding, Rule
from ..twin import ENFORCED
from ..unknown import UNKNOWN, at, sequence, text
from . import VALIDATION

_RESIZED = frozenset({"cpu", "memory"})


def _check_resize_policy(container: Container, _: Context) -> Iterator[Finding]:
    names: set[str] = set()
    for index, policy in enumerate(sequence(container.spec.get("resizePolicy"))):
        name = at(policy, "resourceName")
        if name is not UNKNOWN and (text(name) not in _RESIZED or text(name) in names):
            yield Finding(
                path=f"{container.path}.resizePolicy[{index}].resourceName",
                found=f"{text(name)[:80]} twice" if text(name) in names else text(name)[:80],
                wanted="cpu or memory, each once",
                cure="Remove the entry: only cpu and memory of a running container can change.",
            )
        names.add(text(name))


RULE = Rule(
    id="GPU075",
    title="Only cpu and memory have a resize policy",
    severity=Severity.MANDATORY,
    check=each_container(_check_resize_policy, HAVE_RESOURCES),
    why="The number of devices of a running container can't change. The API server rejects a "
    "resizePolicy for any resource but cpu and memory.",
    source=f"{VALIDATION} validateResizePolicy",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    pod(of_container="resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]"),
    ("resourceName: cpu", "resourceName: nvidia.com/gpu"),
)
