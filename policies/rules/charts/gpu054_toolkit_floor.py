"""GPU054: The container toolkit is new enough."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.rules.charts.operator import operator_release
from policies.rules.context import Context, Severity
from policies.rules.example import Example
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.twin import (
    CHART_VALUES,
)
from policies.rules.unknown import at, text

_NUMBERS = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")


def _floor(subject: Subject, context: Context) -> Iterator[Finding]:
    chart = operator_release(subject)
    if chart is None or at(chart.values, "toolkit", "enabled") is False:
        return
    version = text(at(chart.values, "toolkit", "version"))
    have, least = _NUMBERS.match(version), _NUMBERS.match(context.toolkit_floor)
    if have and least and tuple(map(int, have.groups())) < tuple(map(int, least.groups())):
        yield Finding(
            path="values.toolkit.version",
            found=version[:40],
            wanted=f"{context.toolkit_floor} or newer",
            cure="Older ones let a container out to the host (CVE-2025-23359, CVE-2025-23266).",
        )


RULE = Rule(
    id="GPU054",
    title="The container toolkit is new enough",
    severity=Severity.MANDATORY,
    check=_floor,
    why="Toolkits up to 1.17.3 let a container mount the host's file system. The setting "
    "toolkitFloor raises the bar.",
    source="NVIDIA security bulletin of February 2025, CVE-2025-23359",
)

TWIN = CHART_VALUES

EXAMPLE = Example(
    passing="""\
apiVersion: helm.sh/v3
kind: Release
name: gpu-operator
chart: gpu-operator
version: v26.7.0
repositoryOpts: {repo: https://helm.ngc.nvidia.com/nvidia}
values:
  toolkit: {version: v1.17.4-ubuntu20.04}
""",
    failing="""\
apiVersion: helm.sh/v3
kind: Release
name: gpu-operator
chart: gpu-operator
version: v26.7.0
repositoryOpts: {repo: https://helm.ngc.nvidia.com/nvidia}
values:
  toolkit: {version: v1.17.3-ubuntu20.04}
""",
)
