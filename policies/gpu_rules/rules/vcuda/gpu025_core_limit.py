"""Rule GPU025: the annotation vcuda-core-limit should be a text with a number from 1 to 100."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, edited, pod
from ..pod_spec import Pod
from ..rule import Finding, Need, Rule, Subject
from ..signs import TENCENT_ANNOTATIONS
from ..twin import pods
from ..unknown import UNKNOWN, at, text

_HUNDREDTHS = re.compile("0*([1-9][0-9]?|100)")


def _limit_annotation(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    key = "tencent.com/vcuda-core-limit"
    value = at(pod.metadata, "annotations", key)
    if value is not None and value is not UNKNOWN and not _HUNDREDTHS.fullmatch(text(value)):
        yield Finding(
            path=pod.under(f"metadata.annotations[{key}]"),
            found="a value that is not a number from 1 to 100 as text",
            wanted='text such as "50"',
            cure="Quote the number: annotations are text.",
        )


RULE = Rule(
    id="GPU025",
    title="The annotation vcuda-core-limit is text from 1 to 100",
    severity=Severity.ADVISORY,
    check=each_pod(_limit_annotation),
    why="Annotations are text; the API server rejects a bare number.",
    source="tkestack gpu-manager README, pkg/types/types.go VCoreLimitAnnotation",
    needs=frozenset({Need.GPU_MANAGER}),
)

_LIMIT_KEY = cel.text("tencent.com/vcuda-core-limit")

TWIN = pods(
    cel.unless_empty(
        f"variables.annotations[?{_LIMIT_KEY}].hasValue() && "
        f'!variables.annotations[{_LIMIT_KEY}].matches("^0*([1-9][0-9]?|100)$")',
        f'"found " + variables.annotations[{_LIMIT_KEY}]',
    ),
    on_update=cel.annotation_set("tencent.com/vcuda-core-limit"),
    signs=(TENCENT_ANNOTATIONS,),
)

EXAMPLE = Example.edited(
    edited(
        pod(limits="tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 20"),
        (
            "metadata: {name: train}",
            'metadata:\n  name: train\n  annotations: {tencent.com/vcuda-core-limit: "80"}',
        ),
    ),
    ('tencent.com/vcuda-core-limit: "80"', 'tencent.com/vcuda-core-limit: "800"'),
    settings={"platform": "gpu-manager"},
)
