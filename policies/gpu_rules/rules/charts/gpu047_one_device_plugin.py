"""Rule GPU047: a node must not run two device plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...context import Context, Severity
from ..example import Example
from ..helm import DEVICE_PLUGIN, GPU_OPERATOR, releases
from ..rule import Finding, Rule, Subject
from ..twin import SEVERAL_OBJECTS
from ..unknown import at, mapping, text

# Device plugins by the last part of the image's name.
_IMAGES: Mapping[str, str] = {
    "k8s-device-plugin": "NVIDIA's device plugin",
    "gpu-manager": "gpu-manager",
    "hami": "HAMi",
}

_CHARTS: Mapping[str, str] = {DEVICE_PLUGIN: "NVIDIA's device plugin", "hami": "HAMi"}

_MOST_COMPARED = 20
"""Largest number of different plugins with which each further one is compared."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A DaemonSet or Helm release that runs a device plugin on nodes.

    Attributes:
        subject: The DaemonSet or release.
        what: Name of the device plugin, for messages.
        selector: Node selector of the device plugin's pods.
    """

    subject: Subject
    what: str
    selector: Mapping[str, object]


def _find_plugins(subjects: Sequence[Subject]) -> Iterator[_Plugin]:
    for subject in subjects:
        for chart in releases(subject):
            # A repository of Flux or Argo CD may declare a release for each of several clusters,
            # a ClusterPolicy belongs to a release, and values may be those of the same release.
            if subject.group_version.partition("/")[0] != "helm.sh" or subject.kind == "Values":
                continue
            selector = mapping(chart.values.get("nodeSelector"))
            if chart.chart in _CHARTS:
                yield _Plugin(subject, _CHARTS[chart.chart], selector)
            operated = at(chart.values, "devicePlugin", "enabled") is not False
            if chart.chart == GPU_OPERATOR and operated:
                yield _Plugin(subject, "NVIDIA's device plugin", {})
        if subject.kind == "DaemonSet" and subject.pod:
            for container in subject.pod.containers:
                image = text(container.spec.get("image")).partition("@")[0]
                name = image.rpartition("/")[2].partition(":")[0]
                if name in _IMAGES:
                    selector = mapping(subject.pod.spec.get("nodeSelector"))
                    yield _Plugin(subject, _IMAGES[name], selector)
                    break


def _are_apart(first: _Plugin, second: _Plugin) -> bool:
    """Return whether no node can run both plugins, because their node selectors contradict."""
    return any(
        key in second.selector and second.selector[key] != value
        for key, value in first.selector.items()
    )


def _clash(first: _Plugin, second: _Plugin) -> bool:
    """Return whether a node may run both plugins, and one of them is not a copy of the other."""
    releases = first.subject.pod is None and second.subject.pod is None
    return not _are_apart(first, second) and (first.what != second.what or releases)


def _one_each(subjects: Sequence[Subject], _: Context) -> Iterator[tuple[Subject, Finding]]:
    by_stack: dict[str, dict[tuple[str, bool, str], _Plugin]] = {"": {}}
    for second in _find_plugins(subjects):
        stack = second.subject.stack
        earlier = by_stack.setdefault(stack, {})
        for first in (*by_stack[""].values(), *(earlier.values() if stack else ())):
            if not _clash(first, second):
                continue
            yield (
                second.subject,
                Finding(
                    path="spec" if second.subject.pod else "values",
                    found=f"{second.what} in addition to {first.what} of {first.subject.kind} "
                    f"{first.subject.name}",
                    wanted="one device plugin per node",
                    cure="Remove one, or run them on different nodes (nodeSelector): both would "
                    "assign the same devices.",
                ),
            )
        if len(earlier) < _MOST_COMPARED:
            selector = repr(sorted(second.selector.items(), key=repr))
            earlier.setdefault((second.what, second.subject.pod is None, selector), second)


RULE = Rule(
    id="GPU047",
    title="A node has one device plugin",
    severity=Severity.MANDATORY,
    across=_one_each,
    why="Two device plugins assign the same devices /dev/nvidiaN, and neither knows what the "
    "other has assigned. The GPU Operator installs NVIDIA's device plugin itself unless "
    "devicePlugin.enabled is false.",
    source="NVIDIA k8s-device-plugin internal/rm; tkestack gpu-manager; Project-HAMi HAMi; "
    "gpu-operator v26.7.0 values devicePlugin.enabled",
)

TWIN = SEVERAL_OBJECTS

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: List
items:
  - apiVersion: helm.sh/v3
    kind: Release
    name: gpu-operator
    chart: gpu-operator
    version: v26.7.0
    repositoryOpts: {repo: https://helm.ngc.nvidia.com/nvidia}
    values:
      devicePlugin: {enabled: false}
  - apiVersion: helm.sh/v3
    kind: Release
    name: nvidia-device-plugin
    chart: nvidia-device-plugin
    version: 0.20.0
    repositoryOpts: {repo: https://nvidia.github.io/k8s-device-plugin}
""",
    ("\n    values:\n      devicePlugin: {enabled: false}", ""),
)
