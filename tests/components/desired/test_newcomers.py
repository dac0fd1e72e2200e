"""The Node of a host may be missing only until the host has joined the cluster."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pulumi.runtime import mocks

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.desired.question import Question
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator.hosts import host_public_key
from tests.fixtures.documents import stack_document
from tests.mocks import Recorder, declare

INIT = {"endpoint": "192.0.2.1:6443", "network": {"manifest": "cni.yaml"}}
GOOD = "abcdef.0123456789abcdef"
JOIN = {"endpoint": "192.0.2.1:6443", "caCertHashes": [f"sha256:{'0' * 64}"]}


def declared(packages: dict[str, Any]) -> Cluster:
    roles = {"cp-1": "control-plane", "gpu-1": "gpu-worker"}
    return load(
        stack_document(
            context="here",
            pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            kubernetesPackages={"version": "1.34.4", **packages},
            hosts=[
                {
                    "name": name,
                    "role": role,
                    "address": f"192.0.2.{number}",
                    "hostKey": host_public_key(name),
                }
                for number, (name, role) in enumerate(roles.items(), 1)
            ],
        )
    )


def problems(cluster: Cluster, nodes: list[str], *applied: str) -> tuple[str, ...]:
    facts, found = HostFacts(applied=applied), ClusterSeen(nodes=tuple(nodes))
    told = judged(resolve(cluster, "dev"), Seen(hosts={"gpu-1": facts}, cluster=found)).problems
    return tuple(line for line in told if "no such node" in line)


@pytest.mark.parametrize(
    ("packages", "phase"), [({"init": INIT}, "cluster"), ({"join": JOIN}, "prepare")]
)
def test_a_missing_node_stops_the_run_once_its_host_has_joined(
    packages: dict[str, Any], phase: str
) -> None:
    cluster = declared(packages)
    assert [host.name for host in resolve(cluster, "dev").newcomers] == ["gpu-1"]
    assert problems(cluster, ["cp-1"]) == ()
    (told,) = problems(cluster, ["cp-1"], phase)
    assert told.startswith("host gpu-1: node gpu-1: found no such node in the cluster (1 node)")
    assert problems(cluster, ["cp-1", "gpu-1"], phase) == ()


def asked(cluster: Cluster) -> Question:
    return resolve(cluster, "dev").question


def test_the_inspection_knows_who_joins() -> None:
    (pool,) = asked(declared({"init": INIT})).scheduling
    assert pool.joining == ("gpu-1",)
    assert asked(declared({})).scheduling[0].joining == ()


class SlowHosts(Recorder):
    """Recorder in which the Commands on hosts complete after all other resources."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if "-hosts-" in args.name:
            time.sleep(0.5)
        return super().new_resource(args)


@pytest.mark.usefixtures("no_hooks")
def test_nodes_are_labelled_after_their_hosts_have_joined_without_the_inspection_too() -> None:
    cluster = declared({"join": JOIN})

    def program() -> None:
        GpuCluster(
            "gpu-cluster",
            GpuClusterArgs(settings=cluster, private_key="key", join_token=GOOD),
        )

    recorder = declare(program, preview=False, recorder=SlowHosts())
    names = [resource.name for resource in recorder.resources]
    assert names.index("gpu-cluster-host-preparation-gpu-1") < names.index(
        "gpu-cluster-node-scheduling.pools"
    )
