"""Rule GPU055: an automatic driver upgrade must have limits for parallel nodes and for draining."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_release
from ..example import Example, operator_release
from ..helm import ChartRelease
from ..rule import Declared, Finding, Rule
from ..twin import CHART_VALUES
from ..unknown import at, mapping, number


def _check_upgrades(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    policy = mapping(at(chart.values, "driver", "upgradePolicy"))
    if policy.get("autoUpgrade") is False:
        return
    if number(policy.get("maxParallelUpgrades")) == 0:
        yield Finding(
            path="values.driver.upgradePolicy.maxParallelUpgrades",
            found="0, which means no limit",
            wanted="1 or more",
            cure="Set how many nodes may be without GPUs at the same time.",
        )
    drain = mapping(policy.get("drain"))
    if drain.get("enable") is True and number(drain.get("timeoutSeconds")) == 0:
        yield Finding(
            path="values.driver.upgradePolicy.drain.timeoutSeconds",
            found="0, which means no timeout",
            wanted="a number of seconds, such as 300",
            cure="Set a timeout: a pod that cannot be evicted would block the upgrade of all "
            "nodes.",
        )


RULE = Rule(
    id="GPU055",
    title="A driver upgrade has limits",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    check=each_release(_check_upgrades),
    why="The operator upgrades drivers automatically. With maxParallelUpgrades 0, all nodes "
    "lose their GPUs at the same time. A drain without a timeout waits forever for the "
    "first pod that cannot be evicted.",
    source="gpu-operator v26.7.0 deployments/gpu-operator/values.yaml driver.upgradePolicy",
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release("driver: {upgradePolicy: {autoUpgrade: true, maxParallelUpgrades: 1}}"),
    ("maxParallelUpgrades: 1", "maxParallelUpgrades: 0"),
)
