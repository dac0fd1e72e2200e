"""Fake observed state of hosts and a cluster after a stack was applied and validated.

This is a fake of the inspection's result, not of a host or a cluster: no program runs. The parts
come from the functions that write records on real nodes and hosts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_cluster.change.document import ClusterChange
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.findings import Finding
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import desired_phases
from gpu_cluster.hosts.phases import preparation_disrupts, runtime_disrupts
from gpu_cluster.inspection import losses
from gpu_cluster.inspection.document import ChangeCollector
from gpu_cluster.inspection.judgement import Inspection, Seen, judged, with_losses
from gpu_cluster.inspection.observe import with_plans
from gpu_cluster.inspection.observed_cluster import ClusterSeen, with_members
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import applied, record
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.release.difference import compare as platform_difference
from gpu_cluster.release.helm_record import Noted, ReleaseRecord
from gpu_cluster.release.objects import ObjectsSeen
from gpu_cluster.rollout import mig_targets
from gpu_cluster.rollout.inspect import NodesSeen, view
from gpu_cluster.validation.difference import ValidationDifference
from gpu_cluster.validation.difference import compare as validation_compare
from gpu_cluster.validation.inspect import PoolSeen
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"
SERVER = "v1.36.3"
DRIVER = "595.91.07"


def base() -> Json:
    """Return a document with a pool of 4 nodes with 8 GPUs, of which 2 are hosts."""
    return stack_document(
        context="gpu-cluster-dev",
        hosts=[
            {"name": f"gpu-{n}", "address": f"192.0.2.{n}", "hostKey": HOST_KEY} for n in (1, 2)
        ],
    )


def desired_of(document: Json) -> Desired:
    return resolve(load(copy.deepcopy(document)), "dev")


def pod(name: str, node: str, gpus: int = 0, **more: Any) -> Json:
    """Return a running pod of a Deployment in namespace `team-a`."""
    namespace, _, plain = name.rpartition("/")
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    owner = {"kind": "ReplicaSet", "name": f"{plain}-6f9", "controller": True}
    return {
        "metadata": {
            "namespace": namespace or "team-a",
            "name": plain,
            "uid": name,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            **more,
        },
        "status": {"phase": "Running"},
    }


def claim(name: str, node: str, gpus: int) -> Json:
    """Return a ResourceClaim that has allocated GPUs of a node to the pod of the same name."""
    devices = [
        {"driver": "gpu.nvidia.com", "pool": node, "device": f"gpu-{number}"}
        for number in range(gpus)
    ]
    return {
        "metadata": {"namespace": "team-a", "name": name},
        "status": {
            "allocation": {"devices": {"results": devices}},
            "reservedFor": [{"resource": "pods", "name": name}],
        },
    }


def changed(desired: Desired, inspection: Inspection) -> ClusterChange:
    """Return what a run would change, according to an inspection."""
    return ChangeCollector(
        hosts=desired.hosts,
        nodes=desired.nodes,
        platform=desired.platform,
        validation=desired.validation,
        rollout=desired.rollout,
        maintenance=desired.maintenance,
        inspection=inspection,
        unsupported=desired.unsupported,
    ).change("gpu-cluster")


@dataclass
class World:
    """Nodes, hosts and pods; tests change them before they call `change`.

    Attributes:
        nodes: Node objects by name.
        hosts: Facts by host.
        pods: All pods.
        release: Chart version of the installed platform by chart name.
        claims: All ResourceClaims.
        values: Values of the installed platform's chart.
        objects: Objects of the installed platform in addition to its release.
    """

    nodes: dict[str, Json] = field(default_factory=dict)
    hosts: dict[str, HostFacts] = field(default_factory=dict)
    pods: list[Json] = field(default_factory=list)
    release: dict[str, str] = field(default_factory=dict)
    claims: list[Json] = field(default_factory=list)
    values: Json = field(default_factory=dict)
    objects: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Json) -> World:
        """Return the state of a stack that was applied and validated."""
        desired = desired_of(document)
        world = cls(
            release={desired.platform.chart: desired.platform.version},
            values=dict(desired.question.values),
            objects=tuple(map(str, desired.presence.objects)),
        )
        for pool in desired.scheduling.pools:
            names = pool.nodes or tuple(f"{pool.pool}-{n}" for n in range(1, pool.count + 1))
            for name in names:
                world.join(name)
                labels = {**pool.selector, **pool.of_node(name).labels}
                node = world.nodes[name]
                node["metadata"]["labels"] |= labels
                if pool.nodes is not None or pool.pool not in desired.scheduling.by_rule:
                    node["metadata"]["annotations"] |= applied.annotation(pool, name)
                node["spec"]["taints"] = [dict(t) for t in pool.of_node(name).taints]
        for host in desired.hosts:
            world.hosts[host.name] = facts_of(desired, host.name)
        for part in desired.validation.pools:
            for node in world.nodes.values():
                if not _member(node, part):
                    continue
                for kind in ("capacity", "allocatable"):
                    node["status"][kind] |= {k: str(v) for k, v in part.resources.items()}
                layout = next(
                    (p.layout for p in desired.layouts.pools if p.pool == part.pool and p.layout),
                    "",
                )
                if layout:
                    node["metadata"]["labels"]["nvidia.com/mig.config"] = layout
                    node["metadata"]["annotations"][mig_targets.APPLIED] = layout
                    owner = {"manager": desired.layouts.manager, "operation": "Apply"}
                    node["metadata"]["managedFields"] = [owner]
                name = node["metadata"]["name"]
                devices: dict[str, list[str]] = {f"GPU-{name}-{n}": [] for n in range(part.gpus)}
                kept = record.ValidationRecord(
                    facts=record.facts(node, part, []), devices=devices, manager=part.manager
                )
                node["metadata"]["annotations"][record.RECORD] = record.encode(kept)
        return world

    def join(self, name: str) -> None:
        """Add a node on which no stack has set labels, taints or annotations."""
        self.nodes[name] = {
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "nvidia.com/cuda.driver-version.full": DRIVER,
                },
                "annotations": {},
            },
            "spec": {},
            "status": {
                "capacity": {},
                "allocatable": {},
                "nodeInfo": {
                    "kernelVersion": "6.8.0-60-generic",
                    "bootID": "b",
                    "containerRuntimeVersion": "containerd://2.2.9",
                },
            },
        }

    def change(self, document: Json, **more: Any) -> ClusterChange:
        """Return what a run with another configuration would change in this observed state."""
        desired = desired_of(document)
        return changed(desired, self.inspected(desired, **more))

    def inspected(self, desired: Desired, unreachable: str = "") -> Any:
        nodes = list(self.nodes.values())
        seen = with_members(
            ClusterSeen(
                nodes=tuple(self.nodes),
                surroundings=Surroundings(version=SERVER, groups=GROUPS),
                unreachable=unreachable,
            ),
            nodes,
            desired.question,
        )
        version = self.release.get(desired.platform.chart)
        if version is not None:
            noted = Noted(version=version, objects=frozenset(self.objects))
            kept = ReleaseRecord(1, "", "deployed", noted, config=self.values)
            missing = [item for item in desired.presence.objects if str(item) not in self.objects]
            platform = platform_difference(
                str(desired.presence.release),
                kept,
                ObjectsSeen(missing=tuple(missing)),
                desired.platform.version,
                desired.question.values,
            )
            seen = replace(seen, platform=platform)
        found: dict[str, tuple[Finding, ...]] = {}
        for pool in desired.validation.pools:
            for node in nodes:
                if _member(node, pool) and (each := validation_compare(node, pool, [])):
                    found[pool.pool] = (*found.get(pool.pool, ()), *each)
        well = tuple(
            one
            for pool in desired.validation.pools
            for one in PoolSeen(pool, [n for n in nodes if _member(n, pool)], [], {}).health
        )
        seen = replace(seen, validation=ValidationDifference(pools=found), health=well)
        inspection = judged(
            desired, Seen(hosts=self.hosts, cluster=seen, recorded=tuple(self.hosts))
        )
        ask = self.views(desired)
        inspection = with_plans(desired.hosts, desired.rollout, inspection, seen, ask, ask)
        difference = inspection.difference
        asked = losses.question(
            desired.context,
            difference,
            desired.scheduling.pools,
            desired.hosts,
            desired.nodes,
            desired.platform.site.platform,
            boots=desired.rollout.boots,
        )
        pods = {
            name: [found for pod in listed if (found := asked.at_risk(name, pod))]
            for name, listed in self.pods_by_node().items()
            if name in asked.nodes
        }
        seen_pods = losses.LossesSeen(
            losses=losses.losses(asked, pods, self.claims),
            unseen=losses.unseen(asked, pods, self.claims),
        )
        return with_losses(inspection, seen_pods, desired.platform.site.platform)

    def pods_by_node(self) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = {}
        for each in self.pods:
            found.setdefault(each["spec"]["nodeName"], []).append(each)
        return found

    def views(self, desired: Desired) -> Callable[[list[str]], NodesSeen]:
        """Return a fake of the function that inspects the nodes to be drained."""

        def ask(names: list[str]) -> NodesSeen:
            pods = self.pods_by_node()
            found = {
                name: view(self.nodes[name], pods.get(name, []), {}, desired.rollout.consent)
                for name in names
                if name in self.nodes
            }
            return NodesSeen(found, SERVER)

        return ask


GROUPS: Mapping[str, list[str]] = {
    "resource.k8s.io": ["v1"],
    "nfd.k8s-sigs.io": ["v1alpha1"],
    "monitoring.coreos.com": ["v1"],
}


def _member(node: Json, pool: Any) -> bool:
    if pool.nodes is not None:
        return node["metadata"]["name"] in pool.nodes
    return pool.selector.items() <= node["metadata"]["labels"].items()


def facts_of(desired: Desired, name: str) -> HostFacts:
    """Return the facts of a host on which all phases of a declaration were applied."""
    host = next(host for host in desired.hosts if host.name == name)
    phases = {k: v for k, v in desired_phases(host, desired.kubeadm).items() if v is not None}
    disrupts = {"prepare": preparation_disrupts(host)}
    if host.configures_runtime:
        disrupts["runtime"] = runtime_disrupts(host)
    declared = host.sections.driver.version
    return HostFacts(
        os="debian",
        os_version="12",
        arch="x86_64",
        kernel="6.8.0-60-generic",
        nvidia_devices=host.gpus or 0,
        driver=(declared if declared and declared.count(".") else DRIVER) if host.gpus else None,
        containerd="2.2.9",
        toolkit="1.19.1",
        headers=True,
        cgroup=2,
        disk_free_mib=100_000,
        skew=0.0,
        applied=tuple(phases),
        disrupts=disrupts,
        settings={phase: each.settings for phase, each in phases.items()},
        steps={phase: tuple(b.line for b in each.bundles) for phase, each in phases.items()},
    )
