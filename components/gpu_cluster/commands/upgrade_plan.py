"""Run `gpu-cluster upgrade-plan`: propose newer software for a stack, one step at a time.

The newest set is chosen from the table of transitions, ends of support and security floors: the
platform's chart, Kubernetes' packages, the driver and the container toolkit. Each step is one that
the software's makers support, and leaves chart and Kubernetes at versions that work together. The
command changes nothing; with ``--write`` it edits the stack file by the first step.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpu_cluster.change.lines import StackFile
from gpu_cluster.change.text import support_lines
from gpu_cluster.charts.value_table import SERIES, is_known
from gpu_cluster.commands.output import Answer, answering, say
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.stack_edit import Edit, edited
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.inspection.upgrade_path import setting_of, upgrade_path
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.settings.support import ended, supported
from gpu_rules.facts.floors import Software, below, borders
from gpu_rules.facts.transitions import Verdict, histories, judge, parse
from gpu_rules.faults import ConfigError, FaultError
from gpu_rules.printable import printable

KUBERNETES, DRIVER, TOOLKIT = "kubernetes", "driver", "container-toolkit"
MOST_STEPS = 30


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of one software's version.

    Attributes:
        setting: Path of the setting with the version.
        edits: Edits of the stack file that make the step.
    """

    software: str
    setting: str
    was: str
    now: str
    edits: tuple[Edit, ...]

    @property
    def verdict(self) -> Verdict:
        """Return what the software's publisher documents about the step."""
        return judge(self.software, self.was, self.now).verdict


def declared_versions(settings: Mapping[str, Any], chart: str, version: str) -> dict[str, str]:
    """Return the versions that a stack file declares, by software.

    Args:
        settings: Settings of the stack file.
        chart: The platform's chart. Empty: it has none.
        version: Version of that chart, also if it is the default.
    """
    versions = {chart: version} if chart in histories() else {}
    for software in (KUBERNETES, DRIVER, TOOLKIT):
        declared: Any = settings
        for key in setting_of(software).split("."):
            declared = declared.get(key) if isinstance(declared, Mapping) else None
        if isinstance(declared, str) and parse(declared):
            versions[software] = declared
    return versions


def targets(versions: Mapping[str, str], running: str, today: date) -> dict[str, str]:
    """Return the newest versions that work together, by software.

    Args:
        versions: Declared versions, by software.
        running: Version of the cluster's Kubernetes, if the stack declares none. Empty: unknown.
        today: Versions whose support ended earlier are no targets.
    """
    target_versions = dict(versions)
    server = versions.get(KUBERNETES, running)
    for chart in SERIES:
        if chart in versions:
            target_versions[chart] = _newest_chart(
                chart, versions[chart], server, KUBERNETES in versions
            )
            if KUBERNETES in versions:
                target_versions[KUBERNETES] = _newest_kubernetes(
                    chart, target_versions[chart], server, today
                )
    if not any(chart in versions for chart in SERIES) and KUBERNETES in versions:
        target_versions[KUBERNETES] = _newest_kubernetes("", "", server, today)
    if DRIVER in versions:
        target_versions[DRIVER] = _fixed_driver(versions[DRIVER], today)
    if TOOLKIT in versions and (border := below(Software.TOOLKIT, versions[TOOLKIT])):
        target_versions[TOOLKIT] = border.fixed
    return target_versions


def _newest_chart(chart: str, version: str, server: str, is_upgraded: bool) -> str:
    """Return the newest known version of a chart that works with the Kubernetes version.

    Args:
        is_upgraded: Whether the stack can upgrade Kubernetes, too.
    """
    history = histories()[chart]
    start = "v" if version.startswith("v") else ""
    later = [
        f"{start}{release.removeprefix('v')}"
        for release in history.releases
        if history.position(release) > history.position(version) != ()
        and is_known(chart, f"{start}{release.removeprefix('v')}")
        and (is_upgraded or not parse(server) or history.works_with(release, server))
    ]
    return later[-1] if later else version


def _newest_kubernetes(chart: str, version: str, server: str, today: date) -> str:
    """Return the newest supported version of Kubernetes that a chart's version works with."""
    history, releases = histories().get(chart), histories()[KUBERNETES].releases
    later = [
        release.removeprefix("v")
        for release in releases
        if parse(release) > parse(server)
        and ".".join(map(str, parse(release)[:2])) in supported(KUBERNETES, today)
        and (history is None or history.works_with(version, release))
    ]
    return later[-1] if later else server


def _fixed_driver(version: str, today: date) -> str:
    """Return a driver that gets fixes and has no known weakness, of the nearest branch."""
    branches = [branch for branch in supported(DRIVER, today) if int(branch) >= parse(version)[0]]
    if not ended(DRIVER, version, today) and below(Software.DRIVER, version) is None:
        return version
    floors = borders(Software.DRIVER)[0]
    return next((floors[branch].fixed for branch in branches if branch in floors), version)


def plan(
    versions: Mapping[str, str],
    target_versions: Mapping[str, str],
    running: str,
    settings: Mapping[str, Any],
) -> Iterator[Step]:
    """Yield the upgrade steps from the declared to the wanted versions, in order.

    Args:
        running: Version of the cluster's Kubernetes, if the stack declares none.
        settings: Settings of the stack file.
    """
    now = dict(versions)
    for _ in range(MOST_STEPS):
        waiting = [software for software in now if now[software] != target_versions[software]]
        if not waiting:
            return
        steps = {
            software: _next(software, now[software], target_versions[software])
            for software in waiting
        }
        fitting = [
            software for software in waiting if _fits({**now, software: steps[software]}, running)
        ]
        software = (fitting or waiting)[0]
        yield _step(software, now[software], steps[software], settings)
        now[software] = steps[software]


def _next(software: str, was: str, target: str) -> str:
    path = judge(software, was, target).path
    step = path[1] if len(path) > 1 else target
    return step if was.startswith("v") else step.removeprefix("v")


def _fits(versions: Mapping[str, str], running: str) -> bool:
    """Return whether the chart works with Kubernetes, at these versions."""
    server = versions.get(KUBERNETES, running)
    charts = [chart for chart in SERIES if chart in versions]
    return not parse(server) or all(
        histories()[chart].works_with(versions[chart], server) for chart in charts
    )


def _step(software: str, was: str, now: str, settings: Mapping[str, Any]) -> Step:
    setting = setting_of(software)
    section = setting.rpartition(".")[0]
    edits = [Edit(tuple(setting.split(".")), now)]
    if software in SERIES:
        is_known_version = is_known(software, now)
        present = settings.get(section)
        accepts = isinstance(present, Mapping) and present.get("unknownVersion") is True
        if is_known_version is accepts:
            edits.append(Edit((section, "unknownVersion"), not is_known_version))
    return Step(software=software, setting=setting, was=was, now=now, edits=tuple(edits))


async def _server(context: str) -> str:
    async with connect(context) as client:
        return await client.server_version()


def running_kubernetes(context: str) -> str:
    """Return the version of a cluster's API server; empty if it doesn't answer."""
    try:
        return asyncio.run(_server(context))
    except (FaultError, OSError):
        return ""


def run(stack: Stack, *, write: bool, json_output: Answer, today: date | None = None) -> None:
    """Print the steps to the newest supported software of a stack.

    Args:
        write: Whether the stack file is edited by the first step.
        json_output: The JSON document of the command; gets ``steps`` and ``written``.
        today: Date for ends of support. None: the current date.

    Raises:
        FaultError: The stack file has faults, or can't be edited.
    """
    desired = resolve(stack.cluster, stack.name)
    settings = StackFile.read(stack.file).settings
    platform = desired.platform
    versions = declared_versions(settings, platform.chart, platform.version)
    running = "" if KUBERNETES in versions else running_kubernetes(desired.context)
    server = versions.get(KUBERNETES, running)
    say(f"Kubernetes {printable(server, 63) or 'unknown: its API server does not answer'}")
    target_versions = targets(versions, running, today or date.today())
    steps = list(plan(versions, target_versions, running, settings))
    json_output |= {"steps": [_document(step) for step in steps], "written": False}
    for number, step in enumerate(steps, start=1):
        say(f"step {number}: {step.setting}: {printable(step.was)} → {printable(step.now)}")
        support = upgrade_path(step.software, step.was, step.now, ())
        for line in support_lines(support) if support else ():
            say(f"  {printable(line)}")
    if not steps:
        say(f"{stack.file.name} declares the newest versions that are known to work together")
        return
    first = edited(stack.file.read_text(encoding="utf-8"), steps[0].edits)
    if write:
        stack.file.write_text(first, encoding="utf-8")
        json_output["written"] = True
        say(f"{stack.file.name} has step 1: run `gpu-cluster preview`, then `gpu-cluster up`")
        return
    for edit in steps[0].edits:
        say(f"to edit in {stack.file.name}: {edit}")
    say("`gpu-cluster upgrade-plan --write` makes this edit; run it again after `gpu-cluster up`")


def _document(step: Step) -> dict[str, Any]:
    judged = judge(step.software, step.was, step.now)
    return {
        "software": step.software,
        "setting": step.setting,
        "was": step.was,
        "now": step.now,
        "verdict": step.verdict.value,
        "source": judged.source,
        "read": judged.read,
        "edits": [{"path": ".".join(edit.path), "value": edit.value} for edit in step.edits],
    }


def main(*, write: bool = False) -> None:
    """Print the steps to the newest supported software; exit with 1 on a stack file with faults.

    Args:
        write: Edit the stack file by the first step.
    """
    stack = Stack.named()
    with answering("upgrade-plan") as json_output:
        try:
            run(stack, write=write, json_output=json_output)
        except (ConfigError, FaultError) as error:
            sys.exit(f"upgrade-plan: {error}")
