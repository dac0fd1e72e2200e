"""Judge the objects of the platform's chart by the GPU rules before a run creates anything.

The policy pack judges them, too, but only when the engine comes to the release: by then it has
created other resources. A chart that is not in a local folder is judged by the pack alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings
from gpu_rules.charts import NotRendered, judge_rendered, rendered
from gpu_rules.context import Context, Severity


def release_inputs(platform: Platform, charts: ChartsSettings) -> dict[str, Any]:
    """Return the inputs of the platform's Helm release that decide what it renders.

    The result is empty for a platform without a release.

    Args:
        charts: The stack file's section `charts`.
    """
    installation = platform.installation
    if installation.release is None:
        return {}
    source = ChartSource(charts, platform.chart, platform.repository, installation.version)
    return {
        "name": installation.release.name,
        "namespace": installation.release.namespace,
        "values": installation.values,
        "chart": source.arguments["chart"],
        "repositoryOpts": source.arguments.get("repository_opts", {}),
    }


def broken_rules(inputs: Mapping[str, Any], context: Context) -> Iterator[str]:
    """Yield the violations of mandatory rules by objects that the platform's chart renders.

    Args:
        inputs: Inputs of the release, of `release_inputs`.
        context: Facts about the stack that the rules use.
    """
    try:
        violations = judge_rendered(inputs, context) if inputs else []
    except NotRendered:
        return  # The pack reports it; a chart that fails to render fails the engine's preview.
    for violation in violations:
        if violation.severity is Severity.MANDATORY:
            yield violation.message


def rendered_objects(inputs: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the objects that the platform's chart renders; none if it can't be rendered here."""
    try:
        return rendered(inputs) if inputs else ()
    except NotRendered:
        return ()
