"""What is in a cluster, held against the platform that is declared: pure, no connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.hosts.facts import HostFacts
from components.nodes.managers import NFD
from components.nodes.settings.scheduling import NodeFeatures
from components.platforms.findings import FLOOR, GUARDRAILS_FLOOR, Surroundings, numbers
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster
from config.problem import Fault

#: The Container Device Interface in containerd's CRI plugin (containerd 1.7 release notes).
CDI_CONTAINERD = (1, 7)


def judge(
    cluster: Cluster,
    seen: Surroundings,
    members: Mapping[str, list[Mapping[str, str]]],
    hosts: Mapping[str, HostFacts],
) -> list[Fault]:
    """Everything in a cluster that contradicts the platform or will probably do harm.

    Args:
        cluster: what is declared.
        seen: what was read.
        members: labels of each pool's nodes, by pool.
        hosts: facts by host, where hosts were looked at.
    """
    return [
        *_version(cluster, seen),
        *_namespaces(seen),
        *_others(cluster, seen, [labels for nodes in members.values() for labels in nodes]),
        *_rules(cluster, seen),
        *_engines(cluster, seen),
        *_endpoints(cluster, seen),
        *platform_of(cluster).judge(cluster, seen, hosts),
    ]


def _version(cluster: Cluster, seen: Surroundings) -> Iterator[Fault]:
    version = seen.version
    place = f"cluster {cluster.kubernetes.context}"
    if numbers(version) < FLOOR:
        wanted = f"{FLOOR[0]}.{FLOOR[1]} or later, the oldest that this program's client supports"
        yield Fault(place, f"Kubernetes {version}", wanted, "upgrade the cluster")
    elif cluster.guardrails is not None and numbers(version) < GUARDRAILS_FLOOR:
        found = f"Kubernetes {version}, with guardrails declared"
        wanted = f"{GUARDRAILS_FLOOR[0]}.{GUARDRAILS_FLOOR[1]} or later (ValidatingAdmissionPolicy)"
        yield Fault(place, found, wanted, "upgrade the cluster, or remove the section guardrails")


def _namespaces(seen: Surroundings) -> Iterator[Fault]:
    """One of somebody else would be adopted, labelled, and removed with all that it holds."""
    for name in seen.taken:
        yield Fault(
            f"namespace {name}",
            "one that this program did not make",
            "a name of its own, since the namespace goes with the stack",
            "write another name, or remove the namespace where nobody uses it",
        )


def _others(
    cluster: Cluster, seen: Surroundings, nodes: list[Mapping[str, str]]
) -> Iterator[Fault]:
    for item in seen.managers:
        if item.what == NFD or item.ours or item.namespace in seen.namespaces:
            continue
        selector = item.selector.items()
        if not item.scheduled or not any(selector <= labels.items() for labels in nodes):
            continue
        yield Fault(
            f"DaemonSet {item.namespace}/{item.name}",
            f"{item.what} on nodes of the pools",
            f"{cluster.platform} alone: two of them give the same GPU out twice",
            "remove it, or keep its pods off these nodes",
        )


def _rules(cluster: Cluster, seen: Surroundings) -> Iterator[Fault]:
    """Node rules need Node Feature Discovery, and leave to taint nodes."""
    pools = [pool for pool in cluster.pools if pool.selector is not None]
    if cluster.scheduling.node_features is not NodeFeatures.RULE or not pools:
        return
    if "nfd.k8s-sigs.io" not in seen.groups:
        yield Fault(
            f"cluster {cluster.kubernetes.context}",
            "no Node Feature Discovery (nfd.k8s-sigs.io is not served)",
            "one that obeys NodeFeatureRules",
            'install it, or write "nodeFeatures: program" in scheduling',
        )
    elif any(pool.taints for pool in pools) and not seen.tainting:
        yield Fault(
            f"cluster {cluster.kubernetes.context}",
            "a Node Feature Discovery that taints no node",
            "its master with -enable-taints (chart value master.extraArgs or enableTaints)",
            "set it, or take the taints out of the pools that find nodes by selector",
        )


def _engines(cluster: Cluster, seen: Surroundings) -> Iterator[Fault]:
    by_host = {host.node for host in cluster.hosts}
    cdi = platform_of(cluster).needs_cdi(cluster)
    for node, text in seen.engines.items():
        engine, _, version = text.partition("://")
        if node in by_host and engine != cluster.runtime.engine:
            yield Fault(
                f"node {node}",
                f"container engine {text}",
                f"{cluster.runtime.engine}, whose configuration is written on its host",
                "correct runtime.engine, or take the host out",
            )
        elif engine == "containerd" and cdi and numbers(version) < CDI_CONTAINERD:
            yield Fault(
                f"node {node}",
                f"containerd {version}",
                "1.7 or later, which knows the Container Device Interface",
                'upgrade containerd, or write "cdi: false" under runtime',
            )


def _endpoints(cluster: Cluster, seen: Surroundings) -> Iterator[Fault]:
    for what, address in platform_of(cluster).endpoints(cluster).items():
        if problem := seen.endpoints.get(address):
            yield Fault(
                f"{what} {address}",
                problem,
                "an answer from here, as nodes need it",
                "correct the address or open the way; GPU_CLUSTER_LOOK=off skips every look",
            )
