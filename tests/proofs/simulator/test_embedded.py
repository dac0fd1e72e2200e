"""The embedded cluster starts, follows its declaration, survives kills, leaves no trace."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import yaml

from gpu_cluster.machine import processes
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import SimulatorError, marks
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from tests.proofs.simulator.conftest import USER_FILE
from tests.proofs.simulator.running import CLUSTER, Running, declared, until
from tests.simulated import simulate

OTHER = "other"


def versions(cluster: Running) -> dict[str, str]:
    """Return UID, labels and annotations of each node."""
    return {
        node["metadata"]["name"]: str(
            (node["metadata"]["uid"], node["metadata"]["annotations"], node["metadata"]["labels"])
        )
        for node in cluster.items("/api/v1/nodes")
    }


def test_nodes_are_simulated_ready_and_without_gpus(cluster: Running) -> None:
    nodes = {node["metadata"]["name"]: node for node in cluster.items("/api/v1/nodes")}
    assert nodes.keys() == {"control-plane-1", "gpu-1", "gpu-2", "gpu-3"}
    for name, node in nodes.items():
        assert node["metadata"]["annotations"][marks.FAKE_NODE] == "fake"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
        assert node["status"]["allocatable"].get(marks.GPU, "0") == "0"
        assert not node["spec"].get("taints")
    gpu = nodes["gpu-1"]["metadata"]
    assert not [key for key in gpu["labels"] if key.startswith("feature.node.")]
    assert gpu["annotations"][marks.PREPARED] == "assumed"
    assert "node-role.kubernetes.io/control-plane" in nodes["control-plane-1"]["metadata"]["labels"]


def test_a_node_that_is_not_simulated_is_left_alone(cluster: Running) -> None:
    """The embedded cluster's kwok doesn't simulate the Node of a real kubelet.

    With kwokctl's default flags, kwok would.
    """
    path, fake = "/api/v1/nodes", {marks.FAKE_NODE: "fake"}
    try:
        for name, notes in (("foreign", {}), ("later", fake)):
            cluster.request("POST", path, {"metadata": {"name": name, "annotations": notes}})
        until(
            lambda: cluster.node("later")["status"].get("conditions"),
            lambda conditions: bool(conditions),
        )
        assert not cluster.node("foreign")["status"].get("addresses")
    finally:
        for name in ("foreign", "later"):
            cluster.request("DELETE", f"{path}/{name}")


def test_second_up_changes_nothing(cluster: Running) -> None:
    before, running = versions(cluster), simulator.status(CLUSTER)
    again = simulate(CLUSTER, declared())
    assert (again.started, again.changed, again.nodes) == (False, 0, 4)
    assert versions(cluster) == before
    assert simulator.status(CLUSTER) == running
    assert running.ready
    assert not running.missing


def test_nodes_follow_the_pools_and_keep_what_others_set(cluster: Running) -> None:
    label = {"metadata": {"labels": {"someone/elses": "label"}}}
    cluster.request("PATCH", "/api/v1/nodes/gpu-1", label)
    pools = (
        {"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 4},
        {"name": "l4", "selector": {"pool": "l4"}, "count": 2, "gpusPerNode": 1},
    )
    changed = simulate(CLUSTER, declared(*pools)).changed
    # gpu-1 is changed, gpu-2 and gpu-3 are deleted, l4-1 and l4-2 are created.
    assert changed == 5
    names = {node["metadata"]["name"] for node in cluster.items("/api/v1/nodes")}
    assert names == {"control-plane-1", "gpu-1", "l4-1", "l4-2"}
    assert cluster.node("l4-2")["metadata"]["labels"]["pool"] == "l4"
    assert cluster.node("gpu-1")["metadata"]["annotations"][marks.GPUS] == "4"
    simulate(CLUSTER, declared())
    assert cluster.node("gpu-1")["metadata"]["labels"]["someone/elses"] == "label"
    cluster.request(
        "PATCH", "/api/v1/nodes/gpu-1", {"metadata": {"labels": {"someone/elses": None}}}
    )


def test_no_controller_holds_a_lease_that_it_could_lose_on_a_busy_machine(cluster: Running) -> None:
    found = cluster.items("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
    names = {lease["metadata"]["name"] for lease in found}
    assert names.isdisjoint({"kube-controller-manager", "kube-scheduler"})


def test_kubeconfig_is_the_clusters_own_and_private(cluster: Running, home: Path) -> None:
    embedded = cluster.embedded
    assert (home / ".kube" / "config").read_text() == USER_FILE
    assert {path.name for path in home.iterdir()} == {".kube"}
    assert embedded.kubeconfig.stat().st_mode & 0o077 == 0
    document = yaml.safe_load(embedded.kubeconfig.read_text())
    assert document["current-context"] == embedded.context == f"gpu-cluster-{CLUSTER}"
    assert [item["name"] for item in document["contexts"]] == [embedded.context]
    assert document["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


@pytest.mark.parametrize("component", ["kwok-controller", "controller", "kube-scheduler"])
def test_up_starts_what_was_killed(cluster: Running, component: str) -> None:
    before = simulator.status(CLUSTER).running
    os.kill(before[component], signal.SIGKILL)
    until(lambda: simulator.status(CLUSTER).missing, lambda missing: missing == (component,))
    assert simulate(CLUSTER, declared()).started
    after = simulator.status(CLUSTER)
    assert after.ready
    changed = {name for name in before if before[name] != after.running[name]}
    assert changed == {component}


@pytest.mark.slow
def test_after_a_kill_of_everything_objects_are_there_and_down_leaves_nothing(home: Path) -> None:
    try:
        first = Running(simulate(OTHER, declared()))
        uid = first.node("gpu-1")["metadata"]["uid"]
        for pid in simulator.status(OTHER).running.values():
            os.kill(pid, signal.SIGKILL)
        assert simulate(OTHER, declared()).started
        assert first.node("gpu-1")["metadata"]["uid"] == uid
        running = simulator.status(OTHER).running
        assert len(running) == 6
    finally:
        simulator.down(OTHER)
    plane = ControlPlane(OTHER)
    assert not plane.directory.exists()
    assert simulator.status(OTHER).running == {}
    assert not [pid for pid in running.values() if processes.is_running(pid, "")]
    # Stopping a cluster that doesn't exist is no error, so `down` can be run twice.
    simulator.down(OTHER)


@pytest.mark.slow
def test_a_half_made_cluster_is_made_anew(home: Path) -> None:
    plane = ControlPlane(OTHER)
    plane.cluster.mkdir(parents=True)
    (plane.cluster / "kwok.yaml").write_text("")
    try:
        assert simulate(OTHER, declared()).started
        assert simulator.status(OTHER).ready
    finally:
        simulator.down(OTHER)


def test_a_fault_of_no_known_name_or_node_is_refused(cluster: Running) -> None:
    with pytest.raises(SimulatorError, match="wanted one of driver-missing"):
        simulator.set_fault(CLUSTER, "gpu-1", "on-fire")
    with pytest.raises(SimulatorError, match=r"node gpu-9: .*not found"):
        simulator.set_fault(CLUSTER, "gpu-9", "driver-missing")
