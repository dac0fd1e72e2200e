"""Read the chart, version and values of Helm releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .embedded import embedded
from .rule import Subject
from .unknown import UNKNOWN, at, mapping, sequence, text

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
        values: The values that the manifest has; if others stand elsewhere, a missing value is
            UNKNOWN.
        values_path: Path of the values in the manifest.
        version_path: Path of the version in the manifest.
        elsewhere: Path in the manifest of what names files or objects with further values; empty
            if there are none.
    """

    chart: str
    version: str | None
    local: bool
    values: Mapping[str, object]
    values_path: str = "values"
    version_path: str = "version"
    elsewhere: str = ""

    def place(self, path: str) -> str:
        """Return the path in the manifest of a path below `values`, or of `version`."""
        if path == "version":
            return self.version_path
        if self.values_path == _OF_DRIVER:
            return path.replace("values.driver", "spec", 1)
        return (self.values_path + path.removeprefix("values")).removeprefix(".")


def _known_text(value: object) -> str | None:
    return None if value is UNKNOWN else text(value)


def releases(subject: Subject) -> Iterator[ChartRelease]:
    """Yield the Helm releases that a manifest declares, whatever its form.

    The forms are Pulumi's `helm.sh/v3` Release or Chart and `helm.sh/v4` Chart, Flux's HelmRelease,
    the sources of Argo CD's Application, the charts of a kustomization, the values of the GPU
    Operator alone (`of_values`), and the custom resources that the GPU Operator makes of its
    chart's values: ClusterPolicy and NVIDIADriver.
    """
    if not subject.is_first:
        return
    group, _, version = subject.group_version.partition("/")
    spec = mapping(subject.manifest.get("spec"))
    match group, subject.kind:
        case "helm.sh", "Release" | "Chart" if version in ("v3", "v4"):
            yield _of_pulumi(subject)
        case "helm.toolkit.fluxcd.io", "HelmRelease":
            yield _of_flux(spec)
        case "argoproj.io", "Application":
            yield from _of_argo(spec)
        case "kustomize.config.k8s.io", "Kustomization":
            yield from _of_kustomization(subject.manifest)
        case "helm.sh", "Values":
            yield ChartRelease(GPU_OPERATOR, None, False, subject.manifest, "")
        case "nvidia.com", "ClusterPolicy":
            yield ChartRelease(GPU_OPERATOR, None, False, spec, "spec")
        case "nvidia.com", "NVIDIADriver":
            yield ChartRelease(GPU_OPERATOR, None, False, {"driver": spec}, _OF_DRIVER)


_OF_DRIVER: Final = "spec:driver"
"""Path of the values of an NVIDIADriver, whose spec is the section `driver` of the values."""


class _Incomplete(dict[str, object]):
    """Helm values that other files or objects, which the checker doesn't read, may override."""

    def __init__(self, values: Mapping[str, object]) -> None:
        """Copy values, also those of sections."""
        super().__init__(
            (key, _Incomplete(value) if isinstance(value, Mapping) else value)
            for key, value in values.items()
        )

    def get(self, key: str, default: object = None) -> object:
        """Return the value of a key, UNKNOWN if it is missing."""
        return super().get(key, UNKNOWN)

    def forget(self, name: str) -> None:
        """Make a value unknown, named as Helm's option `--set` names it."""
        *sections, key = name.split(".")
        values = self
        for section in sections:
            inner = values.get(section)
            if not isinstance(inner, _Incomplete):
                values[section] = UNKNOWN
                return
            values = inner
        values[key] = UNKNOWN


def _of_flux(spec: Mapping[str, object]) -> ChartRelease:
    """Return the release of a HelmRelease: fluxcd/helm-controller api/v2 HelmReleaseSpec.

    The version of an OCIRepository, which `chartRef` names, stands in another object. The values of
    the ConfigMaps and Secrets in `valuesFrom` come before those of `values` (fluxcd/pkg
    chartutil/values.go, ChartValuesFromReferences).
    """
    values = mapping(spec.get("values"))
    elsewhere = "spec.valuesFrom" if sequence(spec.get("valuesFrom")) else ""
    if elsewhere:
        values = _Incomplete(values)
    if reference := mapping(spec.get("chartRef")):
        name = text(reference.get("name"))
        return ChartRelease(name, None, False, values, "spec.values", elsewhere=elsewhere)
    chart = mapping(at(spec, "chart", "spec"))
    return ChartRelease(
        chart=text(chart.get("chart")).rpartition("/")[2],
        version=_known_text(chart.get("version")),
        local=at(chart, "sourceRef", "kind") in ("GitRepository", "Bucket"),
        values=values,
        values_path="spec.values",
        version_path="spec.chart.spec.version",
        elsewhere=elsewhere,
    )


def _of_argo(spec: Mapping[str, object]) -> Iterator[ChartRelease]:
    """Yield the charts of an Application: argoproj/argo-cd ApplicationSource and its `helm`.

    `valuesObject` takes precedence over `values`, which is text with YAML, and that over the files
    in `valueFiles`. What `parameters` and `fileParameters` set comes last, so it is UNKNOWN here
    (argo-cd docs/user-guide/helm.md, Helm Value Precedence).
    """
    sources = [("spec.source", spec.get("source"))]
    listed = enumerate(sequence(spec.get("sources")))
    sources += [(f"spec.sources[{index}]", source) for index, source in listed]
    for path, source in sources:
        if chart := text(at(source, "chart")):
            key = "valuesObject" if mapping(at(source, "helm", "valuesObject")) else "values"
            values = embedded(at(source, "helm", key))
            others = [name for name in _ELSEWHERE if sequence(at(source, "helm", name))]
            if others:
                values = incomplete = _Incomplete(values)
                for name in set(others) - {"valueFiles"}:
                    for parameter in sequence(at(source, "helm", name)):
                        incomplete.forget(text(at(parameter, "name")))
            yield ChartRelease(
                chart=chart.rpartition("/")[2],
                version=_known_text(at(source, "targetRevision")),
                local=False,
                values=values,
                values_path=f"{path}.helm.{key}",
                version_path=f"{path}.targetRevision",
                elsewhere=f"{path}.helm.{others[0]}" if others else "",
            )


def _of_kustomization(manifest: Mapping[str, object]) -> Iterator[ChartRelease]:
    """Yield the `helmCharts` of a kustomization: kubernetes-sigs/kustomize api/types HelmChart.

    A chart without `repo` is a folder below `helmGlobals.chartHome`. Who reads the kustomization
    also puts the values of its files into `valuesInline`.
    """
    for index, chart in enumerate(sequence(manifest.get("helmCharts"))):
        path = f"helmCharts[{index}]"
        yield ChartRelease(
            chart=text(at(chart, "name")).rpartition("/")[2],
            version=_known_text(at(chart, "version")),
            local=at(chart, "repo") in (None, ""),
            values=mapping(at(chart, "valuesInline")),
            values_path=f"{path}.{'valuesFile' if at(chart, 'valuesFile') else 'valuesInline'}",
            version_path=f"{path}.version",
        )


_ELSEWHERE: Final = ("valueFiles", "parameters", "fileParameters")
"""Fields of an Application's `helm` that name values outside of `values` and `valuesObject`."""

_SECTIONS: Final = frozenset(
    {"driver", "toolkit", "dcgm", "nodeStatusExporter", "vgpuManager", "sandboxWorkloads"}
)
"""Sections of the GPU Operator's values: gpu-operator v26.7.0 deployments/gpu-operator/values.yaml.
"""


def of_values(value: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values of the GPU Operator's chart as a manifest; empty for other content.

    A file with values names no chart. It is the GPU Operator's if it has two of its sections.
    """
    own = [key for key in _SECTIONS & value.keys() if isinstance(value[key], Mapping)]
    if len(own) < 2 or "apiVersion" in value or "kind" in value:
        return {}
    return {"apiVersion": "helm.sh/v3", "kind": "Values", **value}


def _of_pulumi(subject: Subject) -> ChartRelease:
    """Return the release of Pulumi: `chart`, `version`, `repositoryOpts.repo` and `values`."""
    chart = text(subject.manifest.get("chart"))
    repository = _known_text(at(subject.manifest, "repositoryOpts", "repo"))
    remote = repository or repository is None or chart.startswith("oci://")
    local = bool(chart) and not remote and (chart[0] in "./~" or chart.endswith(".tgz"))
    name = chart.rstrip("/").rpartition("/")[2]
    return ChartRelease(
        chart=_chart_of_archive(name) if chart.endswith(".tgz") else name,
        version=_known_text(subject.manifest.get("version")),
        local=local,
        values=mapping(subject.manifest.get("values")),
    )


def _chart_of_archive(archive: str) -> str:
    """Return the name of the chart in an archive `name-1.2.3.tgz`."""
    name = archive.removesuffix(".tgz")
    head, dash, version = name.rpartition("-")
    return head if dash and version.lstrip("v")[:1].isdigit() else name
