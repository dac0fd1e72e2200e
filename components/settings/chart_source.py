"""Where a chart comes from: its repository, or a folder that holds charts by name."""

from __future__ import annotations

import os
from typing import Any

from components.charts.digests import chart_digest
from components.settings.charts import Charts


def is_own(repository: str) -> bool:
    """Whether a chart is the project's own: its place is a folder here."""
    return repository.startswith("./")


def location(charts: Charts, chart: str, repository: str, version: str) -> str:
    """Where a chart comes from: a folder, an archive, an OCI reference or a repository's address.

    Helm refuses what has another digest than its OCI reference says (helm v3.18.6,
    pkg/registry/client.go, ValidateReference). It compares none of an archive nor of a
    repository's: `components.charts.reach` does.

    Args:
        charts: of the stack file; `GPU_CHARTS` in the environment goes before its ``directory``
            and ``oci``, so that one stack can be tried on other charts without an edit.
        chart: name of the chart.
        repository: where its makers publish it, or its folder here.
        version: of the chart.
    """
    if is_own(repository):
        return repository
    directory = os.environ.get("GPU_CHARTS") or charts.directory
    if directory:
        # Without the dot Helm and the rules would take `folder/chart` for a repository's chart.
        start = "" if directory.startswith(("/", "./", "../", "~")) else "./"
        archive = f"-{version}.tgz" if chart in charts.digests else ""
        return f"{start}{directory.rstrip('/')}/{chart}{archive}"
    registry = charts.oci or (repository if repository.startswith("oci://") else None)
    if registry:
        digest = f"@{charts.digests[chart]}" if chart in charts.digests else ""
        return f"{registry}/{chart}{digest}"
    return repository


def wanted_digest(charts: Charts, chart: str, repository: str, version: str) -> str:
    """The digest that a chart's archive must have; empty where none is known.

    What is declared holds everywhere, what the makers publish for their own repository.
    """
    made = location(charts, chart, repository, version) == repository
    return charts.digests.get(chart, "") or (chart_digest(chart, version) if made else "")


def chart_arguments(charts: Charts, chart: str, repository: str, version: str) -> dict[str, Any]:
    """Arguments of a ``Release`` that say which chart it installs, at which version."""
    place = location(charts, chart, repository, version)
    if place == repository and not is_own(repository):
        return {"chart": chart, "version": version, "repository_opts": {"repo": place}}
    return {"chart": place, **({"version": version} if place.startswith("oci://") else {})}
