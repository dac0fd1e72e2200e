"""Compare the state of a cluster with the declared platform; opens no connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpu_cluster.base.names import NFD_PREFIX
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.kubernetes.engine import parse_engine
from gpu_cluster.kubernetes.managers import NFD, Manager
from gpu_cluster.platforms.base import Platform
from gpu_cluster.platforms.findings import FLOOR, GUARDRAILS_FLOOR, Surroundings, numbers
from gpu_cluster.platforms.placement import misplaced
from gpu_cluster.platforms.pod_admission import refused_pods
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.nodes.scheduling import NodeFeatures
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

# First containerd version with CDI in its CRI plugin (containerd 1.7 release notes).
CDI_CONTAINERD = (1, 7)
HOSTNAME = "kubernetes.io/hostname"
# Kind of the object that controls the DaemonSets of the GPU Operator.
_POLICY = "ClusterPolicy"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Declared settings, other than the platform's, that are compared with the cluster.

    Attributes:
        engines: Container engine of each node whose host belongs to the stack, by node.
        node_features: Software that labels and taints the nodes of pools with a `selector`.
        guardrails: True if the stack file has the section `guardrails`.
        priority_classes: Names of the PriorityClasses that the stack creates.
    """

    engines: Mapping[str, Engine] = field(default_factory=dict)
    node_features: NodeFeatures = NodeFeatures.PROGRAM
    guardrails: bool = False
    priority_classes: frozenset[str] = frozenset()


def validate_cluster(
    platform: Platform,
    surroundings: Surroundings,
    members: Mapping[str, list[Mapping[str, str]]],
    hosts: Mapping[str, HostFacts],
    declared: Declared,
) -> list[Fault]:
    """Return everything in a cluster that contradicts the platform or probably causes problems.

    Args:
        platform: The declared platform.
        surroundings: State of the cluster, as the inspection read it.
        members: Labels of each pool's nodes, by pool.
        hosts: Facts by host, for inspected hosts.
        declared: Other declared settings that are compared.
    """
    site = platform.site
    surroundings = _without_adopted(platform, surroundings)
    return [
        *_check_version(site.context, surroundings, declared.guardrails),
        *_check_namespaces(surroundings),
        *_check_other_platforms(
            site.platform, surroundings, [labels for nodes in members.values() for labels in nodes]
        ),
        *(
            _check_feature_rules(site, surroundings)
            if declared.node_features is NodeFeatures.RULE
            else ()
        ),
        *_check_engines(platform, surroundings, declared.engines),
        *_check_endpoints(platform, surroundings),
        *_check_nodes(platform, members, surroundings),
        *refused_pods(
            platform,
            surroundings,
            sum(len(members.get(pool.name, ())) for pool in site.gpu_pools),
            declared.priority_classes,
        ),
        *platform.validate_cluster(surroundings, hosts),
    ]


def _without_adopted(platform: Platform, surroundings: Surroundings) -> Surroundings:
    """Return the state of the cluster without the DaemonSets of adopted software.

    An adopted release has DaemonSets that Helm installed and DaemonSets that its operator created.
    """
    adopted, installation = platform.site.adopted, platform.installation
    if adopted is None:
        return surroundings
    release = installation.release
    names = {
        (extra_object.manifest["metadata"]["namespace"], extra_object.manifest["metadata"]["name"])
        for extra_object in installation.objects
    }

    def is_adopted(item: Manager) -> bool:
        if release is None:
            return (item.namespace, item.name) in names
        is_of_release = item.release == (release.namespace, release.name)
        return is_of_release or (item.namespace == release.namespace and item.controller == _POLICY)

    other_managers = tuple(item for item in surroundings.managers if not is_adopted(item))
    return replace(surroundings, managers=other_managers)


def _check_version(context: str, surroundings: Surroundings, guardrails: bool) -> Iterator[Fault]:
    version = surroundings.version
    place = f"cluster {context}"
    if numbers(version) < FLOOR:
        wanted = f"{FLOOR[0]}.{FLOOR[1]} or later, the oldest that this program's client supports"
        yield Fault(place, f"Kubernetes {version}", wanted, "upgrade the cluster")
    elif guardrails and numbers(version) < GUARDRAILS_FLOOR:
        found = f"Kubernetes {version}, with guardrails declared"
        wanted = f"{GUARDRAILS_FLOOR[0]}.{GUARDRAILS_FLOOR[1]} or later (ValidatingAdmissionPolicy)"
        yield Fault(place, found, wanted, "upgrade the cluster, or remove the section guardrails")


def _check_namespaces(surroundings: Surroundings) -> Iterator[Fault]:
    """Yield faults for namespaces that somebody else created.

    The stack would adopt such a namespace, label it, and later delete it with all its content.
    """
    yield from map(taken_namespace, surroundings.taken)
    yield from (shared_namespace(name, manager) for name, manager in surroundings.shared.items())


def taken_namespace(name: str) -> Fault:
    """Return the fault of a namespace that somebody else created."""
    return Fault(
        f"namespace {name}",
        "a namespace that this program did not create",
        "another name, because the namespace is deleted with the stack",
        "write another name, or delete the namespace if nobody uses it",
    )


def shared_namespace(name: str, manager: str) -> Fault:
    """Return the fault of a namespace that another stack created.

    Args:
        name: The namespace.
        manager: Name of the field manager of the other stack's objects.
    """
    return Fault(
        f"namespace {name}",
        f"a namespace of another stack, {printable(manager, 80)}",
        "a namespace of this stack alone, because it is deleted with the stack",
        "write another name into this stack's file, such as validation.namespace",
    )


def _check_other_platforms(
    platform: str, surroundings: Surroundings, nodes: list[Mapping[str, str]]
) -> Iterator[Fault]:
    for item in surroundings.managers:
        if item.what == NFD or item.ours or item.namespace in surroundings.namespaces:
            continue
        if not item.reaches_node:
            continue
        selector = item.selector.items()
        if not item.scheduled or not any(selector <= labels.items() for labels in nodes):
            continue
        yield Fault(
            f"DaemonSet {item.namespace}/{item.name}",
            f"{item.what} on nodes of the pools",
            f"{platform} alone: two plugins would give the same GPU to two pods",
            "adopt it with `gpu-cluster adopt`, remove it, or keep its pods away from these nodes",
        )


def _check_feature_rules(site: Site, surroundings: Surroundings) -> Iterator[Fault]:
    """Yield faults if the stack's NodeFeatureRules would have no effect in the cluster.

    The rules need Node Feature Discovery, with permission to taint nodes if pools declare taints.
    """
    pools = [pool for pool in site.pools if pool.selector is not None]
    if not pools:
        return
    if "nfd.k8s-sigs.io" not in surroundings.groups:
        yield Fault(
            f"cluster {site.context}",
            "no Node Feature Discovery (nfd.k8s-sigs.io is not served)",
            "a Node Feature Discovery that applies NodeFeatureRules",
            'install it, or write "nodeFeatures: program" in scheduling',
        )
    elif any(pool.taints for pool in pools) and not surroundings.tainting:
        yield Fault(
            f"cluster {site.context}",
            "a Node Feature Discovery that taints no node",
            "NFD's master with the flag -enable-taints (chart value master.extraArgs or "
            "enableTaints)",
            "set the flag, or take the taints out of the pools that find nodes by selector",
        )


def _check_engines(
    platform: Platform, surroundings: Surroundings, declared: Mapping[str, Engine]
) -> Iterator[Fault]:
    cdi = platform.engines.need_cdi
    for node, text in surroundings.engines.items():
        engine, version = parse_engine(text)
        if engine != declared.get(node, engine):
            yield Fault(
                f"node {node}",
                f"container engine {text}",
                f"{declared[node]}, the engine that this program configures on the node's host",
                "correct runtime.engine, or take the host out of the stack file",
            )
        elif engine == "containerd" and cdi and numbers(version) < CDI_CONTAINERD:
            yield Fault(
                f"node {node}",
                f"containerd {version}",
                "1.7 or later, which supports the Container Device Interface",
                'upgrade containerd, or write "cdi: false" under runtime',
            )


def _check_nodes(
    platform: Platform,
    members: Mapping[str, list[Mapping[str, str]]],
    surroundings: Surroundings,
) -> Iterator[Fault]:
    """Yield faults for GPU nodes whose labels or taints keep the platform's pods away.

    Nodes without any label of Node Feature Discovery (NFD) are left out: NFD has not run there yet.
    """
    features = platform.features
    for pool in platform.site.gpu_pools:
        pool_parts = {
            node: pool_part
            for pool_part in platform.site.parts(pool)
            for node in pool_part.node_names
        }
        for labels in members.get(pool.name, ()):
            node_pool = pool_parts.get(labels.get(HOSTNAME, ""), pool)
            node_labels = {**labels, **node_pool.labels, **platform.labels(node_pool)}
            name = labels.get(HOSTNAME, f"of pool {pool.name}")
            discovered = [key for key in labels if key.startswith(NFD_PREFIX)]
            if features and discovered and not any(node_labels.get(k) == v for k, v in features):
                of_pci = [key for key in discovered if "10de" in key]
                yield Fault(
                    f"node {name}",
                    f"labels of Node Feature Discovery, among them {', '.join(of_pci) or 'none'} "
                    "for NVIDIA's devices",
                    "one of the labels "
                    f"{', '.join(f'{key}={value}' for key, value in features)}: without it no "
                    "pod of the platform runs on the node",
                    "set NFD's worker configuration sources.pci.deviceLabelFields to [vendor] and "
                    "deviceClassWhitelist to include 02, 0300 and 0302, or let this stack set the "
                    "label",
                )
            yield from misplaced(
                platform, pool.name, name, node_labels, surroundings.taints.get(name, ())
            )


def _check_endpoints(platform: Platform, surroundings: Surroundings) -> Iterator[Fault]:
    for software, address in platform.endpoints().items():
        if problem := surroundings.endpoints.get(address):
            yield Fault(
                f"{software} {address}",
                problem,
                "a response, because the nodes need it",
                "correct the address or allow the access; GPU_CLUSTER_INSPECTION=off skips the "
                "inspection",
            )
