"""Which hosts have something declared that disrupts pods and isn't applied yet. Pure.

A host says itself what it was last applied with (`components.hosts.disruption`), so what is still
to be rolled is known anew in each run, also after one that was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.desired.host import DesiredHost, working
from components.host_facts import HostFacts
from components.hosts import disruption
from components.hosts.phases import preparation_disrupts as of_preparation
from components.hosts.phases import runtime_disrupts as of_runtime
from components.rollout.plan import UNENDED, Change


def disruptive_settings(host: DesiredHost) -> dict[str, str]:
    """Return what of a host disrupts its pods if it changes, by phase."""
    phases = {"prepare": of_preparation(host)}
    if host.configures_runtime:
        phases["runtime"] = of_runtime(host)
    return phases


def changes(
    hosts: Iterable[DesiredHost],
    facts: Mapping[str, HostFacts],
    cordoned: frozenset[str] = frozenset(),
) -> tuple[Change, ...]:
    """Hosts on which something is declared that disrupts pods and isn't applied yet.

    A host that didn't answer is among them only where an earlier run left its node cordoned: it
    may be booting.

    Args:
        hosts: the hosts of the stack.
        facts: what the hosts said.
        cordoned: nodes that this program cordoned.
    """
    found = []
    for host in working(hosts):
        seen = facts.get(host.name)
        if seen is None or seen.refused:
            continue
        what: tuple[str, ...] = ()
        if not seen.error:
            for phase, after in disruptive_settings(host).items():
                what += _changed(phase, seen.disrupts.get(phase), after)
        if host.node in cordoned and not what:
            what = (UNENDED,)
        if what:
            found.append(Change(host, what, first=not seen.disrupts and not seen.error))
    return tuple(found)


def _changed(phase: str, before: str | None, after: str) -> tuple[str, ...]:
    """Another container engine isn't rolled: the old one's changes are undone before."""
    if before == after or not (before or after):
        return ()
    old, new = (disruption.steps(text or "").get("runtime", "") for text in (before, after))
    if phase == "runtime" and old and old.split(" ")[0] != new.split(" ")[0]:
        return ()
    return disruption.changes(before or "", after)
