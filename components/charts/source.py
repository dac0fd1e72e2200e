"""Where a chart comes from: its repository, or a folder that holds charts by name."""

from __future__ import annotations

import os
from typing import Any

from components.charts.settings import Charts


def is_own(repository: str) -> bool:
    """Whether a chart is the project's own: its place is a folder here."""
    return repository.startswith("./")


def location(charts: Charts, chart: str, repository: str) -> str:
    """Where a chart comes from: a folder, an OCI reference or the address of a repository.

    Args:
        charts: of the stack file; `GPU_CHARTS` in the environment goes before its ``directory``
            and ``oci``, so that one stack can be tried on other charts without an edit.
        chart: name of the chart.
        repository: where its makers publish it, or its folder here.
    """
    if is_own(repository):
        return repository
    directory = os.environ.get("GPU_CHARTS") or charts.directory
    if directory:
        # Without the dot Helm and the rules would take `folder/chart` for a repository's chart.
        start = "" if directory.startswith(("/", "./", "../", "~")) else "./"
        return f"{start}{directory.rstrip('/')}/{chart}"
    return f"{charts.oci}/{chart}" if charts.oci else repository


def chart_arguments(charts: Charts, chart: str, repository: str, version: str) -> dict[str, Any]:
    """Arguments of a ``Release`` that say which chart it installs, at which version."""
    place = location(charts, chart, repository)
    if place == repository and not is_own(repository):
        return {"chart": chart, "version": version, "repository_opts": {"repo": place}}
    return {"chart": place, **({"version": version} if place.startswith("oci://") else {})}
