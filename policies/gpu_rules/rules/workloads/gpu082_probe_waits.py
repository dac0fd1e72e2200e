"""Rule GPU082: a liveness probe should not restart a GPU server that still loads its model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from .. import cel
from ..each import each_gpu_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, NAMES, NO_LIMIT, On, Sign
from ..twin import pods
from ..unknown import UNKNOWN, at, holds_unknown, number, text

_LEAST: Final = 120
"""Seconds that a server should have at least. KServe gave 150 before it added a startup probe."""
_DEFAULTS: Final = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}
"""Defaults of a probe: kubernetes v1.36.3 pkg/apis/core/v1/defaults.go SetDefaults_Probe."""
_NOTEBOOK: Final = "jupyter"
"""Part of the image's name of a notebook server, which serves its page at once."""


def _check_servers(subject: Subject, context: Context) -> Iterator[Finding]:
    # A notebook of Kubeflow loads no model before it serves its page. A DaemonSet is an agent of
    # the nodes, such as an exporter of metrics, and no server of a model.
    if subject.kind not in ("Notebook", "DaemonSet"):
        yield from _CHECK(subject, context)


def _waits(container: Container, _: Context) -> Iterator[Finding]:
    probe = container.spec.get("livenessProbe")
    if probe in (None, UNKNOWN) or container.spec.get("startupProbe") is not None:
        return
    image = container.spec.get("image")
    if image is UNKNOWN or _NOTEBOOK in text(image):
        return
    values = {key: at(probe, key) for key in _DEFAULTS}
    if any(map(holds_unknown, values.values())):
        return
    delay, period, failures = (number(values[key]) or _DEFAULTS[key] for key in _DEFAULTS)
    if (seconds := delay + period * failures) < _LEAST:
        yield Finding(
            path=f"{container.path}.livenessProbe",
            found=f"a restart after {seconds} s without an answer, and no startupProbe",
            wanted="a startupProbe that waits as long as the server may load its model",
            cure="Add a startupProbe with the same handler, such as periodSeconds 10 and "
            "failureThreshold 60.",
        )


_CHECK: Final = each_gpu_container(_waits)

RULE = Rule(
    id="GPU082",
    title="A liveness probe leaves a GPU server time to load its model",
    severity=Severity.ADVISORY,
    check=_check_servers,
    why="A server that loads a model answers no probe for minutes. Without a startupProbe, the "
    "kubelet restarts it before it is ready, again and again, while it occupies its GPUs. The rule "
    f"speaks if the server has less than {_LEAST} s. An image with `{_NOTEBOOK}` in its name loads "
    "no model before it serves its page.",
    source="kserve/kserve pull request 5063; vllm-project/aibrix issue 772; kubernetes v1.36.3 "
    "pkg/kubelet/prober",
    whole=True,
)

_DELAY, _PERIOD, _FAILURES = (
    f"int(c.livenessProbe.?{key}.orValue({default}))" for key, default in _DEFAULTS.items()
)
_UNREADY = (
    f'has(c.livenessProbe) && !has(c.startupProbe) && !c.?image.orValue("").contains("{_NOTEBOOK}")'
)
_SIGN = Sign(_UNREADY, On.GPU_CONTAINER)

TWIN = pods(
    'dyn(object).kind == "DaemonSet" ? [] : '
    + cel.each_container(
        f"{_UNREADY} && {_DELAY} + {_PERIOD} * {_FAILURES} < {_LEAST}",
        '"a liveness probe that leaves no time to load a model"',
        "variables.gpuContainers",
    ),
    signs=(NAMES, CLAIMS, NO_LIMIT, _SIGN),
)

EXAMPLE = Example.edited(
    pod(of_container="livenessProbe: {httpGet: {path: /, port: 80}, initialDelaySeconds: 600}"),
    (", initialDelaySeconds: 600", ""),
)
