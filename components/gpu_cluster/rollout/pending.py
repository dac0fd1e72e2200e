"""Hosts with declared, disruptive settings that are not applied yet. Pure functions.

A host reports the settings that it was last applied with (`gpu_cluster.hosts.disruption`). So each
run knows which hosts still need a rollout, even after a run that was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_cluster.desired.host import DesiredHost, working
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import disruption
from gpu_cluster.hosts.disruption import StepChange
from gpu_cluster.hosts.phases import preparation_disrupts as of_preparation
from gpu_cluster.hosts.phases import runtime_disrupts as of_runtime
from gpu_cluster.hosts.steps.driver import driver_of
from gpu_cluster.rollout.plan import Change, EngineChange
from gpu_cluster.settings.hosts.driver import DriverSource


def disruptive_settings(host: DesiredHost) -> dict[str, str]:
    """Return the settings of a host whose change disrupts its pods, by phase."""
    runtime = of_runtime(host) if host.configures_runtime else ""
    return {"prepare": of_preparation(host), "runtime": runtime}


def changes(
    hosts: Iterable[DesiredHost],
    facts: Mapping[str, HostFacts],
    cordoned: frozenset[str] = frozenset(),
) -> tuple[Change, ...]:
    """Return the hosts with declared, disruptive settings that are not applied yet.

    A host that could not be reached is included only if an earlier run left its node cordoned,
    because the host may be booting.

    Args:
        facts: Facts that the hosts reported, by host name.
        cordoned: Names of the nodes that this program cordoned.
    """
    pending = []
    for host in working(hosts):
        host_facts = facts.get(host.name)
        if host_facts is None or host_facts.refused:
            continue
        by_phase: dict[str, tuple[StepChange, ...]] = {}
        if not host_facts.error:
            for phase, after in disruptive_settings(host).items():
                before = host_facts.disrupts.get(phase)
                if changed := _changed_steps(phase, before, after, host.sections.runtime.engine):
                    by_phase[phase] = changed
        steps = tuple(step for steps in by_phase.values() for step in steps)
        if steps or host.node in cordoned:
            # A run that was interrupted may have applied the first of a new host's phases only.
            first = (
                not host_facts.error
                and not (by_phase or host_facts.disrupts).keys() & host_facts.disrupts.keys()
            )
            undoes = "runtime" in by_phase and not host.configures_runtime
            pending.append(
                Change(host, steps, first, _reboot_reason(host, host_facts, steps), undoes)
            )
    return tuple(pending)


def replaced_engines(
    hosts: Iterable[DesiredHost], facts: Mapping[str, HostFacts]
) -> tuple[EngineChange, ...]:
    """Return the hosts whose container engine is replaced.

    Args:
        facts: Facts that the hosts reported, by host name.
    """
    engine_changes = []
    for host in working(hosts):
        host_facts, engine = facts.get(host.name), host.sections.runtime.engine.value
        if host_facts is None or host_facts.error or not host.configures_runtime:
            continue
        old = _recorded_engine(host_facts.disrupts.get("runtime"))
        if old and old != engine:
            engine_changes.append(EngineChange(host.name, host.node, old, engine))
    return tuple(engine_changes)


def _recorded_engine(recorded: str | None) -> str:
    """Return the container engine in a host's recorded settings; empty if there is none."""
    return next(iter(disruption.steps(recorded or "").get("runtime", ())), "")


def _reboot_reason(host: DesiredHost, facts: HostFacts, steps: tuple[StepChange, ...]) -> str:
    """Return what makes a reboot of a changed host necessary, as far as its facts show it.

    A driver from packages is loaded by a reboot (`driver.sh`, driver_load); a runfile's installer
    unloads the old one. A rollout reboots a host that has a reboot pending, or fails.
    """
    driver = host.sections.driver
    if any(change.step == "kernel" for change in steps):
        return "another kernel"
    if (
        driver_of(host)
        and driver.source is DriverSource.PACKAGE
        and not facts.driver_container
        and driver.version
        and facts.driver not in (None, driver.version)
    ):
        return f"driver {facts.driver} loaded, which packages of {driver.version} do not unload"
    return f"a reboot pending ({'; '.join(facts.reboot)})" if facts.reboot else ""


def _changed_steps(
    phase: str, before: str | None, after: str, engine: str
) -> tuple[StepChange, ...]:
    """Return the changes of one phase that disrupt pods and thus must be made in waves.

    If another container engine replaces the old one, nothing is returned: the program undoes the
    old engine's changes on all hosts first, outside of any wave.
    """
    if before == after or not (before or after):
        return ()
    old = _recorded_engine(before)
    if phase == "runtime" and old and old != engine:
        return ()
    return disruption.changes(before or "", after)
