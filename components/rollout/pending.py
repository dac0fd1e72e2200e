"""Which hosts have something declared that disrupts pods and isn't applied yet. Pure.

A host says itself what it was last applied with (`components.hosts.disruption`), so what is still
to be rolled is known anew in each run, also after one that was killed.
"""

from __future__ import annotations

from collections.abc import Mapping

from components.hosts import disruption
from components.hosts.container_runtime import gpu_hosts
from components.hosts.facts import HostFacts
from components.hosts.prepare_script import disrupting as of_preparation
from components.hosts.runtime_script import disrupting as of_runtime
from components.hosts.settings.host import Host
from components.rollout.plan import Change
from components.settings.cluster import Cluster


def declared(cluster: Cluster, host: Host, with_runtime: frozenset[str]) -> dict[str, str]:
    """What of a host disrupts pods, by phase."""
    own = cluster.of(host)
    phases = {"prepare": of_preparation(own, host)}
    if host.name in with_runtime:
        phases["runtime"] = of_runtime(own, host)
    return phases


def changes(
    cluster: Cluster, facts: Mapping[str, HostFacts], cordoned: frozenset[str] = frozenset()
) -> tuple[Change, ...]:
    """Hosts on which something is declared that disrupts pods and isn't applied yet.

    A host that didn't answer is among them only where an earlier run left its node cordoned: it
    may be booting.

    Args:
        cluster: the configuration.
        facts: what the hosts said.
        cordoned: nodes that this program cordoned.
    """
    with_runtime = frozenset(host.name for host in gpu_hosts(cluster))
    found = []
    for host in cluster.working_hosts:
        seen = facts.get(host.name)
        if seen is None or seen.refused:
            continue
        what: tuple[str, ...] = ()
        if not seen.error:
            for phase, after in declared(cluster, host, with_runtime).items():
                what += _changed(phase, seen.disrupts.get(phase), after)
        if host.node in cordoned and not what:
            what = ("an earlier run did not end",)
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
