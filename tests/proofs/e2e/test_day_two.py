"""Tests of the procedures in docs/how-to/day-two.md by commands on an embedded cluster.

The pods are simulated. Other tests prove excluded GPUs, node drains and driver changes
(tests/proofs/platform/test_live.py, tests/proofs/rollout).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from gpu_cluster.nodes import record
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.ports import free_ports
from gpu_rules.kube.gpu_resources import GPU
from tests.proofs.e2e.project import Json, Project, figures

TRAIN = "namespaces/default/pods/train"
PLUGIN = "nvidia-device-plugin"


def nodes(project: Project) -> dict[str, Json]:
    """Return each node's labels, taints, and the time and devices of its validation."""
    found = project.request("GET", "nodes")["items"]
    return {
        each["metadata"]["name"]: {
            "labels": each["metadata"].get("labels"),
            "taints": each["spec"].get("taints"),
            "validated": (kept := record.decode(each)) and (kept.since, kept.devices),
        }
        for each in found
    }


def pods(project: Project) -> dict[str, str]:
    """Return the UID of each pod of the device plugin, by name."""
    found = project.request("GET", f"namespaces/{PLUGIN}/pods")["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


@contextmanager
def training(project: Project, node: str) -> Iterator[None]:
    """Run a user's pod with all GPUs of a node while the block runs."""
    limits = {"limits": {GPU: "8"}}
    spec = {
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "train", "image": "train", "resources": limits}],
    }
    body = {"metadata": {"name": "train"}, "spec": spec}
    project.request("POST", "namespaces/default/pods", body=body)
    try:
        while project.request("GET", TRAIN)["status"].get("phase") != "Running":
            pass
        yield
    finally:
        project.request("DELETE", TRAIN)


def edited(project: Project, **changes: Any) -> str:
    """Change the first pool in the stack file, and return the output of `gpu-cluster preview`."""
    project.edit(lambda cluster: cluster["pools"][0].update(changes), hardware=False)
    done = project.command("preview")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def up(project: Project) -> Iterator[Project]:
    kept = project.read()
    try:
        assert figures(project.up())[:2] == (32, 32)
        yield project
    finally:
        project.write(kept)
        assert project.command("destroy").returncode == 0


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster up` with another name of a pool changes no node and restarts no pod."
)
def test_a_renamed_pool_leaves_nodes_and_pods_as_they_are(up: Project) -> None:
    before, running = nodes(up), pods(up)
    said = edited(up, name="h100")
    assert "pool a100 is now h100, with the same nodes and 32 GPUs" in said
    assert "nothing is validated; nobody drained" in said
    assert figures(up.up())[:2] == (32, 32)
    assert nodes(up) == before
    assert pods(up) == running
    assert figures(up.up()) == (32, 32, 0)


@pytest.mark.full
@pytest.mark.promise("A node that leaves the stack keeps its pods, and loses all that we set.")
def test_a_node_that_goes_is_left_with_its_pod_and_nothing_of_ours(up: Project) -> None:
    with training(up, "gpu-4"):
        said = edited(up, nodes=["gpu-[1-3]"])
        assert "1 pod keeps running on its GPUs until it ends" in said
        assert "default/train (gpu-4, 8 GPUs)" in said
        assert figures(up.up())[:2] == (24, 24)
        assert up.request("GET", TRAIN)["status"]["phase"] == "Running"
        gone = up.request("GET", "nodes/gpu-4")
    assert not [key for key in gone["metadata"]["annotations"] if key.startswith("gpu-cluster/")]
    assert GPU not in gone["metadata"]["labels"]
    assert not [t for t in gone["spec"].get("taints") or [] if t["key"] == GPU]


@pytest.mark.full
def test_a_node_is_left_alone_in_maintenance_and_comes_back(up: Project) -> None:
    before = nodes(up)["gpu-3"]
    up.edit(lambda cluster: cluster.update(maintenance=["gpu-3"]), hardware=False)
    assert figures(up.up())[:2] == (24, 24)
    assert nodes(up)["gpu-3"] == before
    up.edit(lambda cluster: cluster.pop("maintenance"), hardware=False)
    assert figures(up.up())[:2] == (32, 32)
    assert nodes(up)["gpu-3"] == before


@pytest.mark.full
def test_a_new_host_gets_its_key_by_one_scan_that_somebody_confirms(up: Project) -> None:
    (port,) = free_ports(1)
    key = simulated_hosts.host_public_key("gpu-3")
    new = {"name": "gpu-3", "role": "gpu-worker", "address": "127.0.0.1", "port": port}
    up.edit(lambda cluster: cluster["hosts"].append({**new, "hostKey": key}))
    assert up.command("start").returncode == 0
    up.edit(lambda cluster: cluster["hosts"][-1].pop("hostKey"), hardware=False)
    shown = up.command("host_keys")
    assert shown.returncode == 0, shown.stdout
    code = re.search(r"CONFIRM=([0-9a-f]+)", shown.stdout)
    assert code is not None, shown.stdout
    done = up.command("host_keys", CONFIRM=code[1])
    assert done.returncode == 0, done.stdout
    hosts = yaml.safe_load(up.file.read_text())["config"]["gpu-cluster:cluster"]["hosts"]
    assert hosts[-1]["hostKey"] == key
    assert figures(up.up())[:2] == (32, 32)
    # Take the host out while its machine runs: `destroy` could not undo its preparation later.
    up.edit(lambda cluster: cluster["hosts"].pop(), hardware=False)
    refused = up.command("up")
    assert refused.returncode == 1
    assert (
        "host gpu-3: found a host that is no longer declared, while its node stays"
        in refused.stdout
    )
    up.edit(
        lambda cluster: cluster["pools"][0].update(nodes=["gpu-[1-2]", "gpu-4"]), hardware=False
    )
    assert figures(up.up())[:2] == (24, 24)
