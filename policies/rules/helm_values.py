"""Helm releases of the GPU stack, judged by their values.

Values of gpu-operator v26.7.0 (deployments/gpu-operator/values.yaml) and of the charts named in
`helm.GPU_CHARTS`; a value that is not given has the chart's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.helm import GPU_CHARTS, GPU_OPERATOR, ChartRelease, release
from policies.rules.replicas import number
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

_EXACT = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")
_NUMBERS = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_FIXED = re.compile(r"v?[0-9]|sha256:")
_BY_VARIABLE = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
_BY_MOUNT = "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"
_STRATEGY = "DEVICE_LIST_STRATEGY"
_VERSIONED = ("driver", "toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager")


def _operator(subject: Subject) -> ChartRelease | None:
    found = release(subject)
    return found if found and found.chart == GPU_OPERATOR else None


def _variable(environment: object, name: str) -> str | None:
    """A variable of a chart's `env` list, empty where it is not there, `None` where unknown."""
    if environment is UNKNOWN or holds_unknown(environment):
        return None
    for each in sequence(environment):
        if at(each, "name") == name:
            value = at(each, "value")
            return None if value is UNKNOWN else text(value)
    return ""


def _hardening_pair(subject: Subject, _: Context) -> Iterator[Finding]:
    found = _operator(subject)
    if found is None or at(found.values, "toolkit", "enabled") is False:
        return
    cdi = at(found.values, "cdi", "enabled")
    toolkit = at(found.values, "toolkit", "env")
    by_variable, by_mount = _variable(toolkit, _BY_VARIABLE), _variable(toolkit, _BY_MOUNT)
    strategy = _variable(at(found.values, "devicePlugin", "env"), _STRATEGY)
    if None in (by_variable, by_mount, strategy) or cdi is UNKNOWN:
        return
    if by_variable == "false" and strategy in ("", "envvar") and cdi is False:
        yield Finding(
            path=f"values.toolkit.env[{_BY_VARIABLE}]",
            found="false, with a device plugin that names devices by that variable",
            wanted=f"{_STRATEGY}=volume-mounts in devicePlugin.env, or cdi.enabled",
            cure="Set both: with one alone no unprivileged container gets its GPUs.",
        )
    if strategy and "volume-mounts" in strategy and by_mount != "true":
        yield Finding(
            path=f"values.devicePlugin.env[{_STRATEGY}]",
            found="volume-mounts, which the toolkit does not look at",
            wanted=f"{_BY_MOUNT}=true in toolkit.env",
            cure="Set both: with one alone no container gets its GPUs.",
        )


def _chart_pinned(subject: Subject, _: Context) -> Iterator[Finding]:
    found = release(subject)
    if found is None or found.chart not in GPU_CHARTS or found.local or found.version is None:
        return
    if not _EXACT.fullmatch(found.version):
        yield Finding(
            path="version",
            found=f"{found.version[:40]}, a range" if found.version else "none",
            wanted="one version of the chart, such as v26.7.0",
            cure="Without it every run may bring another driver to every node.",
        )


def _parts_pinned(subject: Subject, _: Context) -> Iterator[Finding]:
    found = _operator(subject)
    if found is None:
        return
    for part in _VERSIONED:
        version = at(found.values, part, "version")
        if version is None or version is UNKNOWN:
            continue
        written = text(version)
        if not _FIXED.match(written):
            yield Finding(
                path=f"values.{part}.version",
                found=written[:40] or "nothing that is a version",
                wanted="one version, or a digest",
                cure="Leave it out for the chart's own, or name one.",
            )


def _floor(subject: Subject, context: Context) -> Iterator[Finding]:
    found = _operator(subject)
    if found is None or at(found.values, "toolkit", "enabled") is False:
        return
    version = text(at(found.values, "toolkit", "version"))
    have, least = _NUMBERS.match(version), _NUMBERS.match(context.toolkit_floor)
    if have and least and tuple(map(int, have.groups())) < tuple(map(int, least.groups())):
        yield Finding(
            path="values.toolkit.version",
            found=version[:40],
            wanted=f"{context.toolkit_floor} or newer",
            cure="Older ones let a container out to the host (CVE-2025-23359, CVE-2025-23266).",
        )


def _upgrades(subject: Subject, _: Context) -> Iterator[Finding]:
    found = _operator(subject)
    policy = mapping(at(found.values, "driver", "upgradePolicy")) if found else {}
    if policy.get("autoUpgrade") is False:
        return
    if number(policy.get("maxParallelUpgrades")) == 0:
        yield Finding(
            path="values.driver.upgradePolicy.maxParallelUpgrades",
            found="0, which is no limit",
            wanted="1 or more",
            cure="Set how many nodes may lose their GPUs at once.",
        )
    drain = mapping(policy.get("drain"))
    if drain.get("enable") is True and number(drain.get("timeoutSeconds")) == 0:
        yield Finding(
            path="values.driver.upgradePolicy.drain.timeoutSeconds",
            found="0, which waits for ever",
            wanted="a number of seconds, such as 300",
            cure="Set one: a pod that cannot be evicted would stop the upgrade of all nodes.",
        )


RULES = (
    Rule(
        id="GPU038",
        title="The toolkit and the device plugin agree on how devices are named",
        severity=Severity.MANDATORY,
        check=_hardening_pair,
        why="Refusing NVIDIA_VISIBLE_DEVICES from unprivileged containers closes the way past the "
        "device plugin, but the plugin itself names devices by it. Both are changed together, or "
        "no container gets a GPU.",
        source="nvidia-container-toolkit api/config/v1/toml.go; gpu-operator v26.7.0 "
        "deployments/gpu-operator/values.yaml; Project-HAMi HAMi issue 469",
    ),
    Rule(
        id="GPU052",
        title="A chart of the GPU stack has a fixed version",
        severity=Severity.MANDATORY,
        check=_chart_pinned,
        why="The chart's version decides driver, toolkit and plugin on every node. A range, or "
        "none, takes whatever the repository has at that time.",
        source="helm.sh/helm v3.18 pkg/repo/index.go; gpu-operator v26.7.0 Chart.yaml",
        whole=True,
    ),
    Rule(
        id="GPU053",
        title="Driver, toolkit and plugin have fixed versions",
        severity=Severity.MANDATORY,
        check=_parts_pinned,
        why="A tag such as latest changes the driver under running workloads whenever a node "
        "pulls it anew.",
        source="gpu-operator v26.7.0 deployments/gpu-operator/values.yaml",
    ),
    Rule(
        id="GPU054",
        title="The container toolkit is new enough",
        severity=Severity.MANDATORY,
        check=_floor,
        why="Toolkits up to 1.17.3 let a container mount the host's file system. The setting "
        "toolkitFloor raises the bar.",
        source="NVIDIA security bulletin of February 2025, CVE-2025-23359",
    ),
    Rule(
        id="GPU055",
        title="A driver upgrade is bounded",
        severity=Severity.MANDATORY,
        check=_upgrades,
        why="The operator upgrades drivers by itself. With maxParallelUpgrades 0 every node loses "
        "its GPUs at once; a drain without a timeout stops at the first pod that stays.",
        source="gpu-operator v26.7.0 deployments/gpu-operator/values.yaml driver.upgradePolicy",
    ),
)
