"""Where a chart comes from: its repository, or a folder that holds charts by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from components.charts.digests import chart_digest
from components.settings.charts import ChartsSettings


def is_own(repository: str) -> bool:
    """Whether a chart is the project's own: its place is a folder here."""
    return repository.startswith("./")


@dataclass(frozen=True)
class ChartSource:
    """Where a chart comes from.

    Attributes:
        charts: of the stack file; `GPU_CHARTS` in the environment goes before its ``directory``
            and ``oci``, so that one stack can be tried on other charts without an edit.
        chart: name of the chart.
        repository: where its makers publish it, or its folder here.
        version: of the chart.
    """

    charts: ChartsSettings
    chart: str
    repository: str
    version: str

    @property
    def location(self) -> str:
        """A folder, an archive, an OCI reference or a repository's address.

        Helm refuses what has another digest than its OCI reference says (helm v3.18.6,
        pkg/registry/client.go, ValidateReference). It compares none of an archive nor of a
        repository's: `components.charts.availability` does.
        """
        charts, chart = self.charts, self.chart
        if is_own(self.repository):
            return self.repository
        directory = os.environ.get("GPU_CHARTS") or charts.directory
        if directory:
            # Without the dot Helm and the rules would take `folder/chart` for a repository's chart.
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
        """The digest that the chart's archive must have; empty where none is known.

        What is declared holds everywhere, what the makers publish for their own repository.
        """
        published = self.location == self.repository
        known = chart_digest(self.chart, self.version) if published else ""
        return self.charts.digests.get(self.chart, "") or known

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a ``Release`` that say which chart it installs, at which version."""
        place, version = self.location, self.version
        if place == self.repository and not is_own(place):
            return {"chart": self.chart, "version": version, "repository_opts": {"repo": place}}
        return {"chart": place, **({"version": version} if place.startswith("oci://") else {})}
