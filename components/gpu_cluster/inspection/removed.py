"""Check hosts that the stack file no longer declares. Pure functions.

The run undoes the preparation of such a host, and the engine does that after everything else. So
nothing of the run may depend on it: no node of a pool with GPUs, no pod, and no other host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.validation import DesiredValidation
from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.rollout.plan import EngineChange, View
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_rules.faults import Fault
from gpu_rules.printable import counted, printable, shortened

NAMED = 5
"""Maximum number of groups of names that a message has."""


def removed_hosts(
    recorded: Iterable[str], hosts: Sequence[DesiredHost], prepared: Mapping[str, str]
) -> dict[str, str]:
    """Return the hosts whose preparation the run undoes, each with the name of its node.

    Args:
        recorded: Names of the hosts that an earlier run prepared.
        prepared: By node, the host that was prepared before the node's last validation. A host
            without such a node is assumed to have the name of its node, as by default.
    """
    nodes = {host: node for node, host in prepared.items()}
    declared = {host.name for host in hosts}
    return {name: nodes.get(name, name) for name in recorded if name not in declared}


def findings(removed: Iterable[str]) -> dict[str, Findings]:
    """Return the findings that the preparation of removed hosts is undone, by host."""
    return {
        name: (
            Finding(
                kind=Kind.CHANGE,
                subject=Subject.HOST,
                name=name,
                aspect=Aspect.PHASE,
                key="prepare",
                was="applied",
                now="undone",
            ),
        )
        for name in removed
    }


def faults(
    removed: Mapping[str, str],
    hosts: Iterable[DesiredHost],
    validation: DesiredValidation,
    selected: Mapping[str, Collection[str]],
) -> Iterator[Fault]:
    """Yield faults about removed hosts whose node needs their preparation after the run.

    Args:
        removed: Removed hosts, each with the name of its node.
        validation: Pools with GPUs.
        selected: Names of the nodes of each pool in the cluster, by pool.
    """
    names = {host.node: host.name for host in hosts}
    for name, node in removed.items():
        if node in names:
            yield Fault(
                f"host {name}",
                f"a host that is no longer declared, while host {names[node]} is declared for "
                f"its node {node}",
                f"one name for a machine: the run would prepare it as {names[node]}, and then "
                f"undo what it prepared as {name}",
                f"name the host {name} again; to rename it, run `gpu-cluster leave --hosts "
                f"{name}` first",
            )
    staying: dict[str, list[str]] = {}
    for pool in validation.pools:
        nodes = {*(pool.nodes or ()), *pool.maintenance, *selected.get(pool.pool, ())}
        for name, node in removed.items():
            if pool.gpus and node in nodes and node not in names:
                pool_name = validation.pool_of.get(node, pool.pool)
                staying.setdefault(f"{pool_name} with {counted(pool.gpus, 'GPU')} each", []).append(
                    name
                )
    for pool_text, listed in staying.items():
        yield Fault(
            f"host {shortened([*ranges(listed)], NAMED)}",
            f"a host that is no longer declared, while its node stays in pool {pool_text}",
            "a host as long as its node has GPUs: the run would undo the preparation of the host, "
            "and with it the container runtime that gives pods their GPUs",
            "declare the host again, or take its node out of the pool, too; to hand the host over "
            "as it is, declare it again, and then run `gpu-cluster leave --hosts "
            f"{','.join(ranges(listed))}`, which takes it out of the stack file",
        )


def undrained(
    removed: Mapping[str, str], views: Mapping[str, View], context: str
) -> Iterator[Fault]:
    """Yield a fault for each removed host whose node still runs pods.

    Args:
        removed: Removed hosts, each with the name of its node.
        views: Inspected nodes, by name.
    """
    for name, node in removed.items():
        if pods := _evicted_pods_text(views, node):
            yield Fault(
                f"host {name}",
                f"a host that is no longer declared, while pods run on its node {node}: {pods}",
                "a drained node: the run undoes the preparation of the host",
                f"{_drain_command(context, node)}, or declare the host again",
            )


def undrained_engines(
    engines: Iterable[EngineChange], views: Mapping[str, View], context: str
) -> Iterator[Fault]:
    """Yield a fault for each host that changes its container engine while its node runs pods.

    Args:
        views: Inspected nodes, by name.
    """
    for change in engines:
        if pods := _evicted_pods_text(views, change.node):
            yield Fault(
                f"host {change.host}",
                f"{printable(change.was)}, to be replaced by {change.now} while pods run on its "
                f"node {change.node}: {pods}",
                "a drained node: the run undoes the runtime of the one engine on all hosts at the "
                "same time, and then configures the other",
                f"{_drain_command(context, change.node)}, or declare runtime.engine: "
                f"{printable(change.was)}",
            )


def _evicted_pods_text(views: Mapping[str, View], node: str) -> str:
    """Return the pods that would be evicted from a node, as text."""
    pods = [f"{pod.namespace}/{pod.name}" for pod in views.get(node, View()).pods]
    return printable(shortened(pods, NAMED)) if pods else ""


def _drain_command(context: str, node: str) -> str:
    return f"`kubectl --context {context} drain {node} --ignore-daemonsets`"
