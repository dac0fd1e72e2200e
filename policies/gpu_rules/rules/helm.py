"""Read the chart, version and values of Helm releases."""

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
    """A Helm release.

    Attributes:
        chart: Name of the chart without repository and folder.
        version: Version as it is declared; empty if missing, None if not known.
        local: Whether the chart is a folder or an archive on this machine.
    """

    chart: str
    version: str | None
    local: bool
    values: Mapping[str, object]


def _known(value: object) -> str | None:
    return None if value is UNKNOWN else text(value)


def release(subject: Subject) -> ChartRelease | None:
    """Return the Helm release that a manifest declares, or None if it declares none.

    The manifest has the inputs of Pulumi's `helm.sh/v3` Release or Chart, or `helm.sh/v4` Chart:
    `chart`, `version`, `repositoryOpts.repo` and `values`.
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
    """Return the name of the chart in an archive `name-1.2.3.tgz`."""
    name = archive.removesuffix(".tgz")
    head, dash, version = name.rpartition("-")
    return head if dash and version.lstrip("v")[:1].isdigit() else name
