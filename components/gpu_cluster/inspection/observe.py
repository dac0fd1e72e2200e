"""Inspection of hosts and cluster before any resource is declared; it changes nothing.

Hosts and cluster are inspected in parallel, each within a time limit. If something can't be
reached, the preview reports that and goes on; a contradiction to the settings stops the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.change.document import ClusterChange, Document, conclusion, stopping
from gpu_cluster.change.lines import StackFile, located
from gpu_cluster.desired.host import DesiredHost, working
from gpu_cluster.desired.question import Question
from gpu_cluster.desired.resolve import Desired
from gpu_cluster.desired.rollout import DesiredRollout
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.kubeadm.kubeconfig import is_there
from gpu_cluster.hosts.prepared import prepared_hosts
from gpu_cluster.inspection import losses, removed
from gpu_cluster.inspection.bounds import bounded, completed
from gpu_cluster.inspection.document import ChangeCollector
from gpu_cluster.inspection.extent import EXTENT, Extent
from gpu_cluster.inspection.judgement import Inspection, Seen, judged, with_busy, with_losses
from gpu_cluster.inspection.observed_cluster import ClusterSeen, observe_cluster
from gpu_cluster.inspection.plans import Ask, planned_mig_layouts, planned_rollout
from gpu_cluster.kubernetes.kubeconfig_contexts import given_kubeconfig, missing_context
from gpu_cluster.release.recorded import has_release
from gpu_cluster.rollout.inspect import NodesSeen, observe_nodes
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable_lines

UNKNOWN = (
    "this stack creates its cluster, which does not exist yet: the preview can't know its token "
    "and its "
    "kubeconfig, how its API server responds to each object, and how many GPUs its nodes advertise"
)


def inspect(
    name: str,
    desired: Desired,
    private_key: str | None,
    source: str = "",
    unknown: str = "",
    recorded: Collection[str] | None = None,
) -> tuple[Inspection, ClusterChange]:
    """Inspect hosts and cluster; return the result, and what a run would change.

    This works without the Pulumi engine.

    Args:
        name: Name of the component `GpuCluster`.
        desired: Desired state.
        private_key: SSH private key of the hosts. None: it is not known, so the hosts are not
            inspected.
        source: Name of the settings in messages. Empty: the stack file.
        unknown: Why the cluster can't be inspected yet. Empty: it can.
        recorded: Type and name (`type::name`) of each resource in the stack's state. None: unknown.

    Raises:
        FaultError: No kubeconfig has the context, or the extent of the inspection is unknown.
    """
    extent = Extent.wanted()
    exists = not unknown and (desired.kubeadm is None or is_there(desired.context))
    if exists and extent.has_cluster:
        require_context(desired.context, desired.stack, source)
    cluster_question = desired.question if exists else None
    places = (*desired.registries, *desired.platform.endpoints().values())
    observed = observe(desired.hosts, places, cluster_question, private_key, extent)
    observed = replace(
        observed,
        recorded=prepared_hosts(name, recorded or ()),
        lacks_release=recorded is not None and not has_release(name, recorded),
    )
    inspection = judged(desired, observed)
    # A run can repair a cluster that the stack makes; any other cluster must answer.
    must_answer = exists and extent.has_cluster and desired.kubeadm is None
    if is_lost := must_answer and observed.cluster.nodes is None:
        problem = observed.cluster.unreachable or _lost_cluster_fault(
            desired.context, observed.reasons
        )
        inspection = replace(inspection, problems=(printable_lines(problem), *inspection.problems))
    reason = "" if exists else unknown or UNKNOWN
    differing = replace(inspection.difference, context=exists, unknown=reason)
    inspection = replace(inspection, difference=differing)
    if extent is not Extent.OFF and exists and not is_lost:
        ask = nodes_of(desired.rollout)
        drained = ask if extent is Extent.ALL else _unseen_nodes
        inspection = with_plans(
            desired.hosts, desired.rollout, inspection, observed.cluster, drained, ask
        )
    inspection = with_busy(inspection, observed.cluster.refused)
    if extent.has_cluster and exists and not is_lost:
        pods = losses.question(
            desired.context,
            inspection.difference,
            desired.scheduling.pools,
            desired.hosts,
            desired.nodes,
            desired.platform.site.platform,
            boots=desired.rollout.boots,
        )
        inspection = _with_losses(pods, inspection, desired.platform.site.platform)
    collector = ChangeCollector(
        hosts=desired.hosts,
        nodes=desired.nodes,
        platform=desired.platform,
        validation=desired.validation,
        rollout=desired.rollout,
        maintenance=desired.maintenance,
        inspection=inspection,
        parts=desired.parts,
        unsupported=desired.unsupported,
    )
    change = collector.change(name)
    if skipped := extent.skipped:
        skipped_parts = (*change.uninspected, f"{skipped} ({EXTENT}={extent})")
        change = change.model_copy(update={"uninspected": skipped_parts})
    return inspection, change


def observe(
    declared: Sequence[DesiredHost],
    places: Sequence[str],
    question: Question | None,
    private_key: str | None,
    extent: Extent,
) -> Seen:
    """Inspect hosts and cluster in parallel.

    Args:
        declared: Hosts of the stack.
        places: Registries and licence servers (`host:port`) that the hosts must reach.
        question: What to inspect in the cluster. None: the cluster does not exist yet.
        private_key: SSH private key of the hosts. None: it is not known yet, so the hosts are not
            inspected.
        extent: Parts to inspect.
    """
    hosts = working(declared) if extent.has_hosts and private_key is not None else ()
    cluster_question = question if extent.has_cluster else None
    problems: tuple[str, ...] = ()
    hosts_seen: Coroutine[Any, Any, dict[str, HostFacts]] | None = None
    if hosts:
        # A stack without hosts doesn't wait until the libraries for SSH are imported (0.2 s).
        from gpu_cluster.hosts.observed.inspect import inspecting_key, observe_hosts

        try:
            key = inspecting_key(private_key or "")
            hosts_seen = observe_hosts(hosts, key, places=places)
        except FaultError as error:
            hosts, problems = (), (str(error),)

    # Slow hosts get the time for their logins that the stack file grants, a bastion's included.
    logins = 2 * max((host.login_seconds for host in hosts), default=0)

    async def every() -> Seen:
        (cluster_seen, cluster_error), (facts, reason) = await asyncio.gather(
            bounded(
                "cluster",
                observe_cluster(cluster_question) if cluster_question else _observe_nothing(),
                ClusterSeen(),
            ),
            bounded("hosts", hosts_seen or _no_facts(), {}, logins),
        )
        reasons = "; ".join(filter(None, (cluster_error, reason)))
        return Seen(hosts=facts, cluster=cluster_seen, problems=problems, reasons=reasons)

    return completed(every())


def _lost_cluster_fault(context: str, reason: str) -> str:
    """Return the fault of a cluster of which nothing was inspected."""
    cure = (
        f"check that its API server answers here: `kubectl --context {context} get nodes`; "
        f"{EXTENT}=hosts leaves the cluster out of a preview"
    )
    return str(Fault(f"cluster {context}", reason, "an answer of its API server", cure))


async def _observe_nothing() -> ClusterSeen:
    return ClusterSeen()


async def _no_facts() -> dict[str, HostFacts]:
    return {}


def documented(change: ClusterChange, stack: str, file: StackFile) -> Document:
    """Return the change document of an inspected cluster.

    Args:
        change: What a run would change.
        file: Lines of the stack file.
    """
    outcome, cause = conclusion(stopping([change]), is_changed=change.is_changed)
    return located(Document(stack=stack, outcome=outcome, clusters=(change,), cause=cause), file)


def require_context(context: str, stack: str, source: str = "") -> None:
    """Check that a kubeconfig has the context; whether the cluster responds is not checked.

    Raises:
        FaultError: No kubeconfig has the context. The cure in the message differs for an embedded
            cluster.
    """
    fault = missing_context(context, source or f"Pulumi.{stack}.yaml")
    if fault and given_kubeconfig() is None and context == f"gpu-cluster-{stack}":
        fault = replace(
            fault, cure=f"run `gpu-cluster start --stack {stack}`, which starts this cluster"
        )
    if fault:
        raise FaultError(fault)


def with_plans(
    hosts: Sequence[DesiredHost],
    rollout: DesiredRollout,
    inspection: Inspection,
    cluster: ClusterSeen,
    pods: Ask,
    ask: Ask,
) -> Inspection:
    """Return the inspection with the plans of the rollout and of the MIG layout changes.

    It is a fault if pods run on the node of a removed host, or of a host whose container engine is
    replaced.

    Args:
        rollout: Settings for taking nodes out of use.
        cluster: The inspected cluster.
        pods: Inspects nodes whose hosts change.
        ask: Inspects nodes whose MIG layout changes.
    """
    waves, rollout_error = planned_rollout(hosts, rollout, inspection.hosts, cluster.cordoned, pods)
    layouts, reason = planned_mig_layouts(rollout, cluster.layouts, ask)
    gone, engines = inspection.difference.removed, inspection.difference.engines
    names = [*gone.values(), *(engine.node for engine in engines)]
    nodes_seen = pods(names) if names else NodesSeen()
    faults = (
        *map(str, removed.undrained(gone, nodes_seen.views, rollout.context)),
        *map(str, removed.undrained_engines(engines, nodes_seen.views, rollout.context)),
    )
    return replace(
        inspection,
        problems=(*inspection.problems, *faults),
        unreachable="; ".join(
            filter(
                None,
                (
                    inspection.unreachable,
                    rollout_error,
                    reason,
                    printable_lines(nodes_seen.unreachable),
                ),
            )
        ),
        difference=replace(inspection.difference, rollout=waves, layouts=layouts),
    )


def _with_losses(
    question: losses.LossesQuestion, inspection: Inspection, platform: str
) -> Inspection:
    """Return the inspection plus the pods that are evicted or lose their GPUs without a rollout."""
    losses_seen, error = completed(
        bounded("pods", losses.observe_losses(question), losses.LossesSeen())
    )
    return replace(
        with_losses(inspection, losses_seen, platform),
        unreachable="; ".join(
            filter(None, (inspection.unreachable, error, losses_seen.unreachable))
        ),
    )


def _unseen_nodes(_: list[str]) -> NodesSeen:
    return NodesSeen(unreachable="the pods of nodes that change were not inspected")


def nodes_of(rollout: DesiredRollout) -> Ask:
    """Return a function that gets the names of nodes and inspects these nodes in the cluster."""

    def ask(names: list[str]) -> NodesSeen:
        work = bounded(
            "rollout", observe_nodes(rollout.context, names, rollout.consent), NodesSeen()
        )
        nodes_seen, reason = completed(work)
        return replace(nodes_seen, unreachable=reason) if reason else nodes_seen

    return ask
