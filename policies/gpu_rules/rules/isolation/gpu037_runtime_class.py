"""Rule GPU037: a pod that requests GPUs must name the RuntimeClass that provides GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, pod
from ..pod_request import resource_requests
from ..pod_spec import Pod
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from ..unknown import UNKNOWN, text


def _check_runtime_class(pod: Pod, _: Subject, context: Context) -> Iterator[Finding]:
    wanted = context.runtime_class
    if wanted is None or not resource_requests(pod, context):
        return
    given = pod.spec.get("runtimeClassName")
    name = text(given)
    path = pod.under("spec.runtimeClassName")
    if given is UNKNOWN or name == wanted or name in context.runtime_classes:
        return
    if not name:
        yield Finding(
            path=path,
            found="none",
            wanted=wanted,
            cure=f"Set runtimeClassName: {wanted}. The nodes' default runtime gives containers no "
            "GPUs.",
        )
    else:
        yield Finding(
            path=path,
            found=name[:80],
            wanted=wanted or "none, because nvidia is the default runtime",
            cure="Correct the name: the API server rejects pods with a RuntimeClass that does not "
            "exist.",
        )


RULE = Rule(
    id="GPU037",
    title="A pod that requests GPUs names the RuntimeClass for GPUs",
    severity=Severity.MANDATORY,
    check=each_pod(_check_runtime_class),
    why="If nvidia is not the default runtime, a container without the RuntimeClass gets no "
    "GPU. If it is the default, the API server rejects pods with a RuntimeClass that the "
    "cluster lacks: it accepts the Deployment, which then stays at 0 pods. Claims (DRA) need no "
    "RuntimeClass: the container engine adds their devices itself (CDI).",
    source="kubernetes v1.34.4 plugin/pkg/admission/runtimeclass/admission.go",
    needs=frozenset({Need.RUNTIME}),
    whole=True,
    of_requests=True,
)

_CLASS = 'variables.spec.?runtimeClassName.orValue("")'

TWIN = pods(
    cel.unless_empty(
        '"runtimeClass" in variables.facts && variables.hasGpus && '
        f"{_CLASS} != variables.facts.runtimeClass && "
        f"!({_CLASS} in {cel.parameter('runtimeClasses')})",
        f'"found " + ({_CLASS} == "" ? "no RuntimeClass" : {_CLASS})',
    ),
    signs=PLACED,
)

EXAMPLE = Example.edited(
    pod("runtimeClassName: nvidia"),
    ("\n  runtimeClassName: nvidia", ""),
    settings={"runtimeClass": "nvidia"},
)
