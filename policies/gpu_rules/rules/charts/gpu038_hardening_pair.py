"""Rule GPU038: the container toolkit and the device plugin must name devices in the same way."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_release
from ..example import Example, operator_release
from ..helm import ChartRelease
from ..rule import Finding, Rule
from ..twin import CHART_VALUES
from ..unknown import UNKNOWN, at, holds_unknown, sequence, text

_BY_VARIABLE = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"

_BY_MOUNT = "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"

_STRATEGY = "DEVICE_LIST_STRATEGY"


def _variable_value(environment: object, name: str) -> str | None:
    """Return a variable of a chart's `env` list; empty if missing, None if not known."""
    if environment is UNKNOWN or holds_unknown(environment):
        return None
    for variable in sequence(environment):
        if at(variable, "name") == name:
            value = at(variable, "value")
            return None if value is UNKNOWN else text(value)
    return ""


def _hardening_pair(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    if at(chart.values, "toolkit", "enabled") is False:
        return
    cdi = at(chart.values, "cdi", "enabled")
    toolkit = at(chart.values, "toolkit", "env")
    by_variable, by_mount = (
        _variable_value(toolkit, _BY_VARIABLE),
        _variable_value(toolkit, _BY_MOUNT),
    )
    strategy = _variable_value(at(chart.values, "devicePlugin", "env"), _STRATEGY)
    if None in (by_variable, by_mount, strategy) or cdi is UNKNOWN:
        return
    if by_variable == "false" and strategy in ("", "envvar") and cdi is False:
        yield Finding(
            path=f"values.toolkit.env[{_BY_VARIABLE}]",
            found="false, with a device plugin that names devices by that variable",
            wanted=f"{_STRATEGY}=volume-mounts in devicePlugin.env, or cdi.enabled",
            cure="Set both: with only one of them, no unprivileged container gets its GPUs.",
        )
    if strategy and "volume-mounts" in strategy and by_mount != "true":
        yield Finding(
            path=f"values.devicePlugin.env[{_STRATEGY}]",
            found="volume-mounts, which the toolkit ignores",
            wanted=f"{_BY_MOUNT}=true in toolkit.env",
            cure="Set both: with only one of them, no container gets its GPUs.",
        )


RULE = Rule(
    id="GPU038",
    title="The toolkit and the device plugin use the same way to name devices",
    severity=Severity.MANDATORY,
    check=each_release(_hardening_pair),
    why="A toolkit that ignores NVIDIA_VISIBLE_DEVICES of unprivileged containers stops "
    "containers that bypass the device plugin. But by default, the device plugin itself "
    "names devices by this variable. Change both together, or no container gets a GPU.",
    source="nvidia-container-toolkit api/config/v1/toml.go; gpu-operator v26.7.0 "
    "deployments/gpu-operator/values.yaml; Project-HAMi HAMi issue 469",
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release(
        "cdi: {enabled: false}",
        "toolkit:",
        "  env:",
        '    - {name: ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED, value: "false"}',
        '    - {name: ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS, value: "true"}',
        "devicePlugin: {env: [{name: DEVICE_LIST_STRATEGY, value: volume-mounts}]}",
    ),
    ("\n  devicePlugin: {env: [{name: DEVICE_LIST_STRATEGY, value: volume-mounts}]}", ""),
)
