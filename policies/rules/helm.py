"""Helm releases of the GPU stack: which chart, and values of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .rule import Subject
from .unknown import UNKNOWN, at, mapping, text

GPU_OPERATOR: Final = "gpu-operator"
DEVICE_PLUGIN: Final = "nvidia-device-plugin"
GPU_CHARTS: Final = frozenset(
    {GPU_OPERATOR, DEVICE_PLUGIN, "dcgm-exporter", "gpu-feature-discovery", "hami"}
    | {"dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"}
)


@dataclass(frozen=True, slots=True)
class ChartRelease:
    """A release: the chart's bare name, its version as given, its values.

    `version` is empty where not given, `None` where not known. `local`: the chart is a folder or
    an archive on this machine.
    """

    chart: str
    version: str | None
    local: bool
    values: Mapping[str, object]


def _known(value: object) -> str | None:
    return None if value is UNKNOWN else text(value)


def release(subject: Subject) -> ChartRelease | None:
    """The release that a manifest declares, `None` where it declares none or not which chart.

    Read are the inputs of Pulumi's `helm.sh/v3` Release and Chart and `helm.sh/v4` Chart, given as
    a manifest: `chart`, `version`, `repositoryOpts.repo`, `values`.
    """
    if subject.kind not in ("Release", "Chart"):
        return None
    if subject.group_version not in ("helm.sh/v3", "helm.sh/v4"):
        return None
    chart = text(subject.manifest.get("chart"))
    repository = _known(at(subject.manifest, "repositoryOpts", "repo"))
    remote = repository or repository is None or chart.startswith("oci://")
    local = bool(chart) and not remote and (chart[0] in "./~" or chart.endswith(".tgz"))
    name = chart.rstrip("/").rpartition("/")[2]
    return ChartRelease(
        chart=_bare(name) if chart.endswith(".tgz") else name,
        version=_known(subject.manifest.get("version")),
        local=local,
        values=mapping(subject.manifest.get("values")),
    )


def _bare(archive: str) -> str:
    """The chart of an archive `name-1.2.3.tgz`."""
    name = archive.removesuffix(".tgz")
    head, dash, version = name.rpartition("-")
    return head if dash and version.lstrip("v")[:1].isdigit() else name
