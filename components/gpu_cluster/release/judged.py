"""Judge the objects of the platform's chart by the GPU rules before a run creates anything.

The policy pack judges them, too, but only when the engine comes to the release: by then it has
created other resources. A chart that is not in a local folder is judged by the pack alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings
from gpu_rules.charts import NotRendered, judge_rendered
from gpu_rules.context import Context, Severity


def broken_rules(platform: Platform, charts: ChartsSettings, context: Context) -> Iterator[str]:
    """Yield the violations of mandatory rules by objects that the platform's chart renders.

    Args:
        charts: The stack file's section `charts`.
        context: Facts about the stack that the rules use.
    """
    installation = platform.installation
    if installation.release is None:
        return
    source = ChartSource(charts, platform.chart, platform.repository, installation.version)
    release = installation.release
    props = {
        "name": release.name,
        "namespace": release.namespace,
        "values": installation.values,
        "chart": source.arguments["chart"],
        "repositoryOpts": source.arguments.get("repository_opts", {}),
    }
    try:
        violations = judge_rendered(props, context)
    except NotRendered:
        return  # The pack reports it; a chart that fails to render fails the engine's preview.
    for violation in violations:
        if violation.severity is Severity.MANDATORY:
            yield violation.message
