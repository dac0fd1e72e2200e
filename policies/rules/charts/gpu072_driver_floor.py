"""GPU072: The driver has the security fixes of its branch."""

from __future__ import annotations

from collections.abc import Iterator

from ...facts.floors import Part, below, wanted
from ..context import Context, Severity
from ..example import Example
from ..rule import Finding, Rule, Subject
from ..twin import (
    NoTwin,
)
from ..unknown import UNKNOWN, at, mapping, text
from .operator import operator_release, part_version

#: Node labels of GPU Feature Discovery (k8s-device-plugin v0.20.0, docs/gpu-feature-discovery).
LABEL = "nvidia.com/cuda.driver-version.full"


def _driver(subject: Subject, _: Context) -> Iterator[Finding]:
    version, path = _of_a_node(subject)
    chart = operator_release(subject)
    if chart and at(chart.values, "driver", "enabled") not in (False, UNKNOWN):
        version, path = part_version(chart, "driver")
    if border := below(Part.DRIVER, version):
        yield Finding(
            path=path,
            found=f"driver {version[:40]}",
            wanted=wanted(Part.DRIVER, version, border),
            cure=f"Take that version: {border}.",
        )


def _of_a_node(subject: Subject) -> tuple[str, str]:
    if (subject.kind, subject.group_version) != ("Node", "v1"):
        return "", ""
    labels = mapping(at(subject.manifest, "metadata", "labels"))
    return text(labels.get(LABEL)), f'metadata.labels["{LABEL}"]'


RULE = Rule(
    id="GPU072",
    title="The driver has the security fixes of its branch",
    severity=Severity.ADVISORY,
    check=_driver,
    why="Each GPU container calls the driver in the host's kernel: a weakness there lets a "
    "container act on the host. The GPU Operator's own default can be too old.",
    source="NVIDIA's security bulletins 5520 to 5821 (policies/facts/security_floors.json)",
)

TWIN = NoTwin(
    "A policy on nodes would refuse the labels that report the driver, not the driver. "
    "The inspection of the hosts names it."
)

EXAMPLE = Example(
    passing="""\
apiVersion: helm.sh/v3
kind: Release
name: gpu-operator
chart: gpu-operator
version: v26.3.3
repositoryOpts: {repo: https://helm.ngc.nvidia.com/nvidia}
values:
  driver: {version: 580.159.03}
""",
    failing="""\
apiVersion: helm.sh/v3
kind: Release
name: gpu-operator
chart: gpu-operator
version: v26.3.3
repositoryOpts: {repo: https://helm.ngc.nvidia.com/nvidia}
values:
  driver: {version: 580.126.20}
""",
)
