"""Resolve where a Helm chart comes from: a chart repository, an OCI registry or a directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gpu_cluster.charts.digests import chart_digest
from gpu_cluster.settings.charts import ChartsSettings


def is_own(repository: str) -> bool:
    """Return True if the chart belongs to this project: its repository is a local folder."""
    return repository.startswith("./")


@dataclass(frozen=True)
class ChartSource:
    """One Helm chart at one version, and the place that it is fetched from.

    Attributes:
        charts: The stack file's section `charts`. The environment variable `GPU_CHARTS` overrides
            its `directory` and `oci`, so that a stack can be tried with other charts without an
            edit of the stack file.
        chart: Name of the chart.
        repository: URL of the repository where the vendor publishes the chart, or a path that
            begins with `./` for a chart of this project.
    """

    charts: ChartsSettings
    chart: str
    repository: str
    version: str

    @property
    def location(self) -> str:
        """Return the chart's source: a folder, an archive, an OCI reference or a repository URL.

        Helm rejects a chart from an OCI registry if its digest differs from the digest in the
        reference (helm v3.18.6, pkg/registry/client.go, ValidateReference). Helm checks no digest
        of a local archive or of a chart from a chart repository; `gpu_cluster.charts.availability`
        checks those.
        """
        charts, chart = self.charts, self.chart
        if is_own(self.repository):
            return self.repository
        directory = os.environ.get("GPU_CHARTS") or charts.directory
        if directory:
            # Helm and the policy rules would take `folder/chart` without a leading dot for a chart
            # of a repository.
            start = "" if directory.startswith(("/", "./", "../", "~")) else "./"
            archive = f"-{self.version}.tgz" if chart in charts.digests else ""
            return f"{start}{directory.rstrip('/')}/{chart}{archive}"
        published = self.repository if self.repository.startswith("oci://") else None
        if registry := charts.oci or published:
            digest = f"@{charts.digests[chart]}" if chart in charts.digests else ""
            return f"{registry}/{chart}{digest}"
        return self.repository

    @property
    def digest(self) -> str:
        """Return the digest that the chart's archive must have; an empty string if it is unknown.

        A digest from the stack file (`charts.digests`) applies to every source. The digest that
        the vendor publishes applies only to a download from the vendor's own repository.
        """
        published = self.location == self.repository
        published_digest = chart_digest(self.chart, self.version) if published else ""
        return self.charts.digests.get(self.chart, "") or published_digest

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a Pulumi `Release` that select the chart and its version."""
        place, version = self.location, self.version
        if place == self.repository and not is_own(place):
            return {"chart": self.chart, "version": version, "repository_opts": {"repo": place}}
        return {"chart": place, **({"version": version} if place.startswith("oci://") else {})}
