"""What is in a cluster, held against the platform that is declared: pure, no connection.

`seen` is what `components.inspection.cluster.observe` read: ``version``, ``groups`` (API versions
by group), ``namespaces`` (ours), ``daemonSets`` (see `components.nodes.managers.daemon_set`),
``taintingFeatures`` (Node Feature Discovery may taint nodes), ``engines`` (by node),
``endpoints`` (why each could not be reached; empty where it could).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from components.hosts.facts import HostFacts
from components.inspection.finding import Finding, Severity
from components.nodes.managers import NFD
from components.nodes.settings.scheduling import NodeFeatures
from components.platforms.device_plugin.settings import Presence
from components.platforms.settings import Platform
from components.settings.cluster import Cluster

if TYPE_CHECKING:
    from components.api import Json

#: Kubernetes below this has no ``backoffLimitPerIndex`` by default, which validation Jobs use.
FLOOR = (1, 29)
#: ``resource.k8s.io/v1`` is served from here on by default (Kubernetes 1.34, "DRA is GA").
DRA_FLOOR = (1, 34)
#: From here on the kubelet refuses cgroup v1 unless told otherwise (``failCgroupV1``).
NO_CGROUP_V1 = (1, 35)
#: The Container Device Interface in containerd's CRI plugin (containerd 1.7 release notes).
CDI_CONTAINERD = (1, 7)
#: The oldest vGPU host driver that guests' driver containers work with (document 000, from the
#: operator's vGPU prerequisites).
VGPU_HOST = (12, 0)


@dataclasses.dataclass(frozen=True)
class Guests:
    """What nodes with vGPUs depend on: ``host_driver`` of the hypervisors, and who must answer."""

    host_driver: str
    endpoints: Mapping[str, str]


def guests(cluster: Cluster) -> Guests | None:
    """The vGPU settings of a configuration, None without: name and ``host:port`` of endpoints."""
    vgpu = cluster.gpu_operator.vgpu
    if cluster.platform is not Platform.GPU_OPERATOR or vgpu is None:
        return None
    endpoints = {}
    if vgpu.license_server:
        endpoints["licence server"] = vgpu.license_server
    repository = cluster.driver.image_repository or cluster.registry.mirror
    if repository:
        host = repository.split("/")[0]
        endpoints["registry"] = host if ":" in host else f"{host}:443"
    return Guests(vgpu.host_driver, endpoints)


def endpoints(cluster: Cluster) -> list[str]:
    """Addresses (``host:port``) that the platform's nodes need."""
    declared = guests(cluster)
    return sorted(declared.endpoints.values()) if declared else []


def judge(
    cluster: Cluster,
    seen: Json,
    members: Mapping[str, list[Mapping[str, str]]],
    hosts: Mapping[str, HostFacts],
) -> list[Finding]:
    """Everything in a cluster that contradicts the platform or will probably do harm.

    Args:
        cluster: what is declared.
        seen: what was read.
        members: labels of each pool's nodes, by pool.
        hosts: facts by host, where hosts were looked at.
    """
    return [
        *_version(cluster, seen),
        *_others(cluster, seen, [labels for each in members.values() for labels in each]),
        *_features(cluster, seen),
        *_rules(cluster, seen),
        *_engines(cluster, seen),
        *_cgroups(cluster, seen, hosts),
        *_guests(cluster, seen),
    ]


def numbers(text: str) -> tuple[int, int]:
    """Major and minor of a version; (0, 0) where there is none."""
    match = re.search(r"([0-9]{1,6})\.([0-9]{1,6})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version(cluster: Cluster, seen: Json) -> Iterator[Finding]:
    found = seen["version"]
    place = f"cluster {cluster.kubernetes.context}"
    if numbers(found) < FLOOR:
        wanted = f"{FLOOR[0]}.{FLOOR[1]} or later (Jobs that count each index by itself)"
        yield Finding(place, f"Kubernetes {found}", wanted, "upgrade the cluster")
    elif cluster.platform is Platform.DRA and "v1" not in seen["groups"].get("resource.k8s.io", []):
        yield Finding(
            place,
            f"Kubernetes {found} without resource.k8s.io/v1",
            f"{DRA_FLOOR[0]}.{DRA_FLOOR[1]} or later, with Dynamic Resource Allocation",
            "upgrade the cluster, or declare another platform",
        )


def _others(cluster: Cluster, seen: Json, nodes: list[Mapping[str, str]]) -> Iterator[Finding]:
    for item in seen["daemonSets"]:
        if item["what"] == NFD or item["ours"] or item["namespace"] in seen["namespaces"]:
            continue
        selector = item["selector"].items()
        if not item["scheduled"] or not any(selector <= labels.items() for labels in nodes):
            continue
        yield Finding(
            f"DaemonSet {item['namespace']}/{item['name']}",
            f"{item['what']} on nodes of the pools",
            f"{cluster.platform} alone: two of them give the same GPU out twice",
            "remove it, or keep its pods off these nodes",
        )


def _features(cluster: Cluster, seen: Json) -> Iterator[Finding]:
    match cluster.platform:
        case Platform.GPU_OPERATOR if cluster.gpu_operator.nfd:
            cure = 'write "nfd: false" in gpuOperator'
        case Platform.DEVICE_PLUGIN if cluster.device_plugin.presence is Presence.NFD:
            cure = 'write "presence: label" in devicePlugin'
        case _:
            return
    for item in seen["daemonSets"]:
        if item["what"] == NFD and item["namespace"] not in seen["namespaces"]:
            yield Finding(
                f"DaemonSet {item['namespace']}/{item['name']}",
                "a Node Feature Discovery that is there already",
                "one of them: two write the same labels",
                cure,
            )


def _rules(cluster: Cluster, seen: Json) -> Iterator[Finding]:
    """Node rules need Node Feature Discovery, and leave to taint nodes."""
    pools = [pool for pool in cluster.pools if pool.selector is not None]
    if cluster.scheduling.node_features is not NodeFeatures.RULE or not pools:
        return
    if "nfd.k8s-sigs.io" not in seen["groups"]:
        yield Finding(
            f"cluster {cluster.kubernetes.context}",
            "no Node Feature Discovery (nfd.k8s-sigs.io is not served)",
            "one that obeys NodeFeatureRules",
            'install it, or write "nodeFeatures: program" in scheduling',
        )
    elif any(pool.taints for pool in pools) and not seen["taintingFeatures"]:
        yield Finding(
            f"cluster {cluster.kubernetes.context}",
            "a Node Feature Discovery that taints no node",
            "its master with -enable-taints (chart value master.extraArgs or enableTaints)",
            "set it, or take the taints out of the pools that find nodes by selector",
        )


def _engines(cluster: Cluster, seen: Json) -> Iterator[Finding]:
    by_host = {host.node for host in cluster.hosts}
    cdi = cluster.runtime.cdi or cluster.platform is Platform.DRA
    for node, text in seen["engines"].items():
        engine, _, version = text.partition("://")
        if node in by_host and engine != cluster.runtime.engine:
            yield Finding(
                f"node {node}",
                f"container engine {text}",
                f"{cluster.runtime.engine}, whose configuration is written on its host",
                "correct runtime.engine, or take the host out",
            )
        elif engine == "containerd" and cdi and numbers(version) < CDI_CONTAINERD:
            yield Finding(
                f"node {node}",
                f"containerd {version}",
                "1.7 or later, which knows the Container Device Interface",
                "upgrade containerd",
            )
        elif engine == "docker" and cluster.platform is Platform.GPU_MANAGER:
            yield Finding(
                f"node {node}",
                "the engine docker, whose socket for Kubernetes is another",
                f"{cluster.gpu_manager.container_runtime_endpoint}",
                "write gpuManager.containerRuntimeEndpoint, such as /var/run/cri-dockerd.sock",
                Severity.WARNING,
            )


def _cgroups(cluster: Cluster, seen: Json, hosts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    if cluster.platform is not Platform.GPU_MANAGER:
        return
    wanted = "cgroup v1: gpu-manager reads /sys/fs/cgroup/memory (tkestack/gpu-manager#184)"
    cure = "boot with systemd.unified_cgroup_hierarchy=0, or declare another platform"
    for name, facts in hosts.items():
        if facts.cgroup == 2 and not facts.simulated:
            yield Finding(f"host {name}", "cgroup v2", wanted, cure)
    if numbers(seen["version"]) >= NO_CGROUP_V1:
        yield Finding(
            f"cluster {cluster.kubernetes.context}",
            f"Kubernetes {seen['version']}, whose kubelet refuses cgroup v1 by default",
            "nodes with cgroup v1 and failCgroupV1: false",
            cure,
            Severity.WARNING,
        )


def _guests(cluster: Cluster, seen: Json) -> Iterator[Finding]:
    declared = guests(cluster)
    if declared is None:
        return
    if numbers(declared.host_driver) < VGPU_HOST:
        yield Finding(
            "gpuOperator.vgpu",
            f"host driver {declared.host_driver}",
            f"{VGPU_HOST[0]}.{VGPU_HOST[1]} or later on the hypervisors",
            "upgrade the host driver",
        )
    for what, address in declared.endpoints.items():
        if problem := seen["endpoints"].get(address):
            yield Finding(
                f"{what} {address}",
                problem,
                "an answer from here, as nodes need it",
                "correct the address or open the way; GPU_CLUSTER_LOOK=off skips every look",
            )
