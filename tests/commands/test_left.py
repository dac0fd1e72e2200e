"""Resources of a host are found in a state, and are taken out without a trace."""

from __future__ import annotations

from typing import Any

from gpu_cluster.commands.left import name_of, of_host, without

PREFIX = "urn:pulumi:dev::gpu-cluster::gpucluster:index:GpuCluster$gpucluster:index:"
CLUSTER = f"{PREFIX}KubeadmCluster::gpu-cluster-kubeadm-cluster"
PREPARATION = f"{PREFIX}HostPreparation::gpu-cluster-host-preparation"


def command(parent: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a remote Command of a component."""
    kind, urn = "command:remote:Command", f"{parent.rpartition('::')[0]}$command:remote:Command"
    return {"type": kind, "urn": f"{urn}::{name}", "parent": parent, "custom": True, **more}


STATE = [
    command(PREPARATION, "gpu-cluster-host-preparation-cp-1"),
    command(PREPARATION, "gpu-cluster-host-preparation-join-cp-1"),
    command(CLUSTER, "gpu-cluster-kubeadm-cluster-member-cp-1"),
    command(CLUSTER, "gpu-cluster-kubeadm-cluster-access-cp-1"),
    command(CLUSTER, "gpu-cluster-kubeadm-cluster-member-cp-10"),
    command(CLUSTER, "gpu-cluster-kubeadm-cluster-join-gpu-1"),
]


def test_a_host_has_the_commands_of_its_cluster_too() -> None:
    assert [name_of(urn).removeprefix("gpu-cluster-") for urn in of_host(STATE, "cp-1")] == [
        "host-preparation-cp-1",
        "kubeadm-cluster-member-cp-1",
        "kubeadm-cluster-access-cp-1",
    ]
    assert [name_of(urn) for urn in of_host(STATE, "gpu-1")] == [
        "gpu-cluster-kubeadm-cluster-join-gpu-1"
    ]


def test_nothing_in_the_state_refers_to_a_forgotten_host() -> None:
    gone = of_host(STATE, "cp-1")
    network = {
        "urn": "urn:pulumi:dev::gpu-cluster::kubernetes:apps/v1:DaemonSet::network",
        "dependencies": [gone[1]],
        "propertyDependencies": {"spec": [gone[2]]},
        "deletedWith": gone[1],
    }
    left = without([*STATE, network], gone)
    assert left[-1] == {
        "urn": network["urn"],
        "dependencies": [],
        "propertyDependencies": {"spec": []},
    }
    assert not {resource["urn"] for resource in left} & set(gone)
