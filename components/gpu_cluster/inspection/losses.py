"""Find pods that a run would evict or deprive of their GPUs, outside of rollouts.

Pods on nodes that a rollout or a new MIG layout drains are inspected by `gpu_cluster.rollout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from gpu_cluster.change.document import Cause, Loss
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.nodes import DesiredNodes
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.findings import EMPTY, Aspect, Finding, Kind, is_setting
from gpu_cluster.inspection.difference import Difference, PodLoss
from gpu_cluster.kubernetes.api import ClusterError, Json, connect
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes.drain import to_evict
from gpu_cluster.nodes.gpu_holders import pods_by_node
from gpu_cluster.nodes.pods import (
    PodOnNode,
    not_tolerating,
    of_claims,
    pod_on_node,
    with_gpus,
)
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_rules.kube.taints import NodeTaint

IN_CONTAINER = ("driver.version", "driver.source")
"""Settings in a validation's record whose change replaces a driver's container on the node.

The GPU Operator's driver manager evicts GPU pods before it unloads the driver (source:
NVIDIA/k8s-driver-manager, README).
"""
DRA = "dra"
"""Name of the platform that allocates GPUs through ResourceClaims."""
PLATFORM = "platform"
"""Name of the setting in a validation's record whose change removes the GPUs' device plugin."""
RELEASE = "release"
"""Name of the place of the Helm release in a validation's record, as `namespace/name`.

Helm can't move a release, so Pulumi's provider removes it and installs another (pulumi-kubernetes,
provider/pkg/provider/helm_release.go, `forceNewFields`).
"""


def replaces_driver(finding: Finding, driver: DriverSettings) -> bool:
    """Return whether an edit replaces the container with a node's driver.

    Args:
        finding: Finding about a setting that the node's last validation recorded.
        driver: Driver of the node after the run.
    """
    if is_setting(finding, RELEASE):
        return driver.managed_by_operator
    return is_setting(finding, *IN_CONTAINER) and driver.in_container


def new_taint(finding: Finding) -> NodeTaint | None:
    """Return the taint that a finding about a changed taint adds or edits; otherwise None."""
    if finding.aspect is not Aspect.TAINT or finding.kind is not Kind.CHANGE or not finding.now:
        return None
    taint = NodeTaint.parse(finding.key)
    return replace(taint, value="" if finding.now == EMPTY else finding.now)


@dataclass(frozen=True, kw_only=True)
class NodeAtRisk:
    """A node whose pods a run may disturb.

    Attributes:
        taints: Taints that the run adds.
        gpus: Number of GPUs that stay available to the node's pods. None: all GPUs stay.
        cause: Reason why pods lose their GPUs.
        drained: Whether the run drains the node.
        joins: Whether the node comes to the stack.
    """

    taints: tuple[Json, ...] = ()
    gpus: int | None = None
    cause: Cause = Cause.FEWER_GPUS
    drained: bool = False
    joins: bool = False


@dataclass(frozen=True, kw_only=True)
class UnseenHolder:
    """A pod on a node that joins the stack, with GPUs that look free to the stack's platform.

    Attributes:
        node: Node that the pod runs on.
    """

    node: str
    pod: PodOnNode


@dataclass(frozen=True, kw_only=True)
class LossesSeen:
    """Result of inspecting pods.

    Attributes:
        losses: Pods that would be evicted or would lose their GPUs.
        unseen: Pods with GPUs that the stack's platform would allocate a second time.
        unreachable: Why the pods could not be inspected. Empty: they were inspected.
    """

    losses: tuple[PodLoss, ...] = ()
    unseen: tuple[UnseenHolder, ...] = ()
    unreachable: str = ""


@dataclass(frozen=True, slots=True)
class PodAtRisk:
    """A pod that the run evicts, or to which the kubelet gave GPUs.

    Attributes:
        pod: The pod.
        is_evicted: Whether the run evicts it.
        has_gpus: Whether it has GPUs without a ResourceClaim.
    """

    pod: PodOnNode
    is_evicted: bool
    has_gpus: bool


@dataclass(frozen=True, kw_only=True)
class LossesQuestion:
    """The nodes whose pods are inspected.

    Attributes:
        nodes: The nodes whose pods the run may disturb, by name.
        claims: Whether pods may hold GPUs through ResourceClaims (DRA) now.
        by_claims: Whether the stack's platform allocates GPUs through ResourceClaims.
    """

    context: str
    nodes: Mapping[str, NodeAtRisk] = field(default_factory=dict)
    claims: bool = False
    by_claims: bool = False

    def at_risk(self, node: str, pod: Json) -> PodAtRisk | None:
        """Return a pod of one of the nodes if the run evicts it, or the kubelet gave it GPUs."""
        risk = self.nodes[node]
        if risk.drained:
            is_evicted = bool(to_evict([pod]))
        else:
            is_evicted = bool(not_tolerating([pod], risk.taints))
        has_gpus = bool(with_gpus([pod]))
        return PodAtRisk(pod_on_node(pod), is_evicted, has_gpus) if is_evicted or has_gpus else None


def question(
    context: str,
    difference: Difference,
    pools: Sequence[PoolScheduling],
    hosts: Iterable[DesiredHost],
    nodes: DesiredNodes,
    platform: str,
    *,
    boots: bool,
) -> LossesQuestion:
    """Return the request that names the nodes whose pods must be inspected.

    Args:
        difference: What the run changes.
        pools: Desired labels and taints.
        boots: Whether the run reboots hosts.
    """
    reboots = {host.node for host in hosts if boots and host.name in difference.hosts.reboot}
    by_claims = platform == DRA
    pool_of_name = {pool.pool: pool for pool in pools}
    pool_of = {node.node: node.pool for node in difference.scheduling.nodes}
    replaced: dict[str, Cause] = {}
    for finding in difference.validation.findings:
        if finding.kind is not Kind.CHANGE:
            continue
        driver = nodes.driver_of(finding.name, pool_of.get(finding.name) or "")
        if replaces_driver(finding, driver):
            replaced[finding.name] = Cause.DRIVER
        elif is_setting(finding, PLATFORM, RELEASE):
            replaced.setdefault(finding.name, Cause.PLATFORM)
    edited: dict[str, list[Json]] = {}
    for finding in difference.scheduling.findings:
        taint = new_taint(finding)
        if taint is not None and taint.evicts:
            edited.setdefault(finding.name, []).append(asdict(taint))
    risks = {}
    for node in difference.scheduling.nodes:
        taints = tuple(edited.get(node.node, ()))
        if node.pool and not node.was:
            taints = pool_of_name[node.pool].of_node(node.node).taints
        keeps = 0 if node.node in replaced else node.after if node.after < node.before else None
        other_cause = Cause.FEWER_GPUS if node.pool else Cause.LEAVES_POOL
        risk = NodeAtRisk(
            taints=taints,
            gpus=keeps,
            cause=replaced.get(node.node, other_cause),
            drained=node.node in reboots,
            joins=bool(node.pool) and not node.was,
        )
        if (
            risk.drained
            or risk.joins
            or risk.gpus is not None
            or any(NodeTaint.of(taint).evicts for taint in taints)
        ):
            risks[node.node] = risk
    claims = any(DRA_DRIVER in node.advertised for node in difference.scheduling.nodes)
    # After a DRA driver is removed, its claims still have GPUs that nothing advertises.
    joining = any(risk.joins for risk in risks.values())
    claims |= joining and not by_claims and "resource.k8s.io" in difference.groups
    return LossesQuestion(context=context, nodes=risks, claims=claims, by_claims=by_claims)


async def observe_losses(question: LossesQuestion) -> LossesSeen:
    """Inspect the pods on the nodes whose pods the run may disturb."""
    if not question.nodes:
        return LossesSeen()
    try:
        async with connect(question.context) as client:
            pods = await pods_by_node(client, question.nodes, question.at_risk)
            claims: list[Json] = []
            if question.claims:
                claims = await client.list("resourceclaims", base="/apis/resource.k8s.io")
    except ClusterError as error:
        return LossesSeen(unreachable=str(error))
    return LossesSeen(losses=losses(question, pods, claims), unseen=unseen(question, pods, claims))


def losses(
    question: LossesQuestion, pods: Mapping[str, Sequence[PodAtRisk]], claims: Sequence[Json]
) -> tuple[PodLoss, ...]:
    """Return the pods that would be evicted or would lose their GPUs, by node and name.

    Args:
        question: The nodes whose pods the run may disturb.
        pods: The pods of these nodes that are evicted or have GPUs, by node.
        claims: ResourceClaims of the cluster.
    """
    lost_pods: list[PodLoss] = []
    pods_of_claims = of_claims(claims, question.nodes)
    for name, risk in question.nodes.items():
        listed = sorted(pods.get(name, ()), key=_loss_order)
        evicted = [pod_at_risk.pod for pod_at_risk in listed if pod_at_risk.is_evicted]
        eviction_cause = Cause.DRAIN if risk.drained else Cause.TAINT
        lost_pods += [
            PodLoss(node=name, pod=pod, loss=Loss.EVICTED, cause=eviction_cause) for pod in evicted
        ]
        holders = (*_pods_with_gpus(listed), *pods_of_claims.get(name, ()))
        if risk.gpus is not None and sum(pod.gpus for pod in holders) > risk.gpus:
            gone = {(pod.namespace, pod.name) for pod in evicted}
            loss = Loss.UNDECLARED_GPU if risk.gpus else Loss.LOSES_GPU
            loss = Loss.EVICTED if risk.cause is Cause.DRIVER else loss
            lost_pods += [
                PodLoss(node=name, pod=pod, loss=loss, cause=risk.cause)
                for pod in holders
                if (pod.namespace, pod.name) not in gone
            ]
    return tuple(lost_pods)


def unseen(
    question: LossesQuestion, pods: Mapping[str, Sequence[PodAtRisk]], claims: Sequence[Json]
) -> tuple[UnseenHolder, ...]:
    """Return the pods on joining nodes with GPUs that the stack's platform does not see.

    Args:
        question: The nodes whose pods the run may disturb.
        pods: The pods of these nodes that are evicted or have GPUs, by node.
        claims: ResourceClaims of the cluster.
    """
    pods_of_claims = of_claims(claims, question.nodes)
    return tuple(
        UnseenHolder(node=name, pod=pod)
        for name, risk in question.nodes.items()
        if risk.joins
        for pod in (
            _pods_with_gpus(sorted(pods.get(name, ()), key=_loss_order))
            if question.by_claims
            else pods_of_claims.get(name, ())
        )
    )


def _pods_with_gpus(pods: Iterable[PodAtRisk]) -> Iterator[PodOnNode]:
    return (pod_at_risk.pod for pod_at_risk in pods if pod_at_risk.has_gpus)


def _loss_order(pod_at_risk: PodAtRisk) -> tuple[str, str]:
    return pod_at_risk.pod.namespace, pod_at_risk.pod.name
