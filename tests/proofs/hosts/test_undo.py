"""`pulumi destroy` with unreachable hosts: it undoes other hosts and reports what is left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.commands.left import left, name_of, of_host, without
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from lab.benchmarks.host_stack import HostStack
from tests.proofs.hosts.machine import Running, differences, start


def resources(stack: HostStack) -> list[dict[str, object]]:
    content = json.loads(stack.checkpoint())
    listed: list[dict[str, object]] = content["checkpoint"]["latest"].get("resources", [])
    return listed


def destroy(stack: HostStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return stack.run("destroy", "--yes", "--skip-preview", *arguments)


@pytest.mark.full
def test_a_dead_host_does_not_keep_the_others_from_being_undone(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    alive, dead = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    before = {host.declared.name: host.tree() for host in (alive, dead)}
    key, public = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path, "undo", [alive.declared, dead.declared], key)
    stack.write({**stack.read(), "ssh": {"dialErrorLimit": 1}})
    stack.timed("up", "--yes", "--skip-preview")
    processes.end(hosts_dir(cluster) / "gpu-2")

    done = destroy(stack, "--continue-on-error")
    assert done.returncode != 0
    assert "stage connection: Connection refused (2 attempts)" in done.stdout
    assert differences(before["gpu-1"], alive.tree()) == {}
    lines = left(resources(stack))  # type: ignore[arg-type]
    assert [line.split(":")[0] for line in lines] == ["hosts-gpu-2", "runtime-gpu-2"]

    settings = simulated.HostSettings(mode="namespaces")
    simulated.up(cluster, [alive.declared, dead.declared], public, settings)
    assert destroy(stack).returncode == 0
    assert differences(before["gpu-2"], Running(cluster, dead.declared, dead.key).tree()) == {}
    assert left(resources(stack)) == []  # type: ignore[arg-type]


@pytest.mark.full
def test_a_host_that_is_taken_out_of_the_stack_is_as_it_was(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    stays, goes = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    before = goes.tree()
    key, _ = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path, "undo", [stays.declared, goes.declared], key)
    stack.timed("up", "--yes", "--skip-preview")
    applied = stays.tree(times=True)
    document = stack.read()
    document["hosts"] = document["hosts"][:1]
    stack.write(document)
    stack.timed("up", "--yes", "--skip-preview")
    assert differences(before, goes.tree()) == {}
    assert differences(applied, stays.tree(times=True)) == {}


def entry(
    name: str, parent: str, kind: str = "command:remote:Command", **more: object
) -> dict[str, object]:
    urn = f"urn:pulumi:s::p::{kind}::{name}"
    return {"urn": urn, "type": kind, "custom": True, "parent": f"urn:x::{parent}", **more}


def test_a_host_that_is_forgotten_takes_nothing_of_others_along() -> None:
    first, other = entry("hosts-gpu-1", "hosts"), entry("hosts-gpu-11", "hosts")
    runtime = entry(
        "runtime-gpu-11",
        "runtime",
        dependencies=[first["urn"], other["urn"]],
        propertyDependencies={"stdin": [first["urn"]], "create": None},
    )
    state = [first, other, runtime]
    gone = of_host(state, "gpu-1")
    assert [name_of(urn) for urn in gone] == ["hosts-gpu-1"]
    kept = without(state, gone)
    assert [name_of(str(resource["urn"])) for resource in kept] == [
        "hosts-gpu-11",
        "runtime-gpu-11",
    ]
    assert kept[1]["dependencies"] == [other["urn"]]
    assert kept[1]["propertyDependencies"] == {"stdin": [], "create": []}
    assert of_host(state, "gpu-2") == []
