"""Tests that a preview only reads: it starts, stops and changes nothing.

A preview must also report declared nodes and hosts that don't exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab import simulator, toolchain
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Json, Project, figures, started

HOSTS = ("gpu-1", "gpu-2")
HOLDER = "namespaces/default/pods/holder"


def everything(project: Project) -> dict[str, Any]:
    """Return everything that a preview must not change: processes, API objects and host files."""
    return {
        "processes": simulator.status(project.stack).running,
        "hosts": {host.name: host.pid for host in simulated_hosts.status(project.stack)},
        "objects": snapshot.versions(project),
        "files": {name: snapshot.host(project.host_root(name)) for name in HOSTS},
        "hardware": project.hardware_file.read_text(),
    }


@contextmanager
def holder(project: Project, node: str) -> Iterator[None]:
    """Run a user's pod on a node while the context lasts."""
    body = {
        "metadata": {"name": "holder"},
        "spec": {"nodeName": node, "containers": [{"name": "train", "image": "train"}]},
    }
    project.request("POST", "namespaces/default/pods", body=body)
    try:
        while project.request("GET", HOLDER)["status"].get("phase") != "Running":
            pass
        yield
    finally:
        project.request("DELETE", HOLDER)


def pool(**changes: object) -> Callable[[Json], None]:
    return lambda cluster: cluster["pools"][0].update(changes)


def section(**changes: object) -> Callable[[Json], None]:
    return lambda cluster: cluster.update(changes)


def host(**changes: object) -> Callable[[Json], None]:
    return lambda cluster: cluster["hosts"][1].update(changes)


def swapped(cluster: Json) -> None:
    first, second = cluster["hosts"]
    first["port"], second["port"] = second["port"], first["port"]


EDITS: dict[str, tuple[Callable[[Json], None], str]] = {
    "nothing": (lambda _: None, r"preview: \d+ same; 32 of 32 simulated GPUs usable"),
    "a node fewer": (pool(nodes=["gpu-[1-3]"]), r"preview: .*"),
    "two nodes more": (pool(nodes=["gpu-[1-6]"]), "node gpu-6: found no such node"),
    "fewer GPUs": (pool(gpusPerNode=4), r"preview: .*"),
    "a label": (pool(labels={"nvidia.com/gpu": "true", "example.com/team": "ml"}), "update"),
    "no taint": (pool(taints=[]), "update"),
    "another name": (pool(name="h100"), "create"),
    "the GPU Operator": (section(platform="gpu-operator"), r"preview: .*"),
    "DRA": (section(platform="dra"), r"preview: .*"),
    "a host fewer": (lambda cluster: cluster["hosts"].pop(), "while its node stays in pool a100"),
    "a wrong port": (host(port=1), "host gpu-2: found .*stage connection: .*; wanted: a login of"),
    "the port of another host": (swapped, "host gpu-1"),
    "another user": (host(user="somebody"), "host gpu-2"),
    "another runtime": (section(runtime={"devicesByEnvironment": True}), "changed in waves"),
    "swap": (section(system={"swapOff": False}), r"preview: .*"),
    "reboots": (section(reboot={"when": "required"}), r"preview: .*"),
    "longer validation": (section(validation={"timeoutSeconds": 121}), r"preview: .*"),
    "maintenance": (section(maintenance=["gpu-2"]), "in maintenance"),
    "guardrails": (section(guardrails={"mode": "warn"}), "create"),
    "monitoring": (section(monitoring={}), r"preview: .*"),
    "wider waves": (section(rollout={"maxUnavailable": 2}), r"preview: .*"),
    "a mistake": (section(platfrom="dra"), "platfrom"),
}


@pytest.mark.full
@pytest.mark.promise(
    "A preview changes no object of the cluster, no file of a host and no process, "
    "whatever was edited in the stack file."
)
def test_previews_of_many_edits_change_nothing(project: Project) -> None:
    kept = project.read()
    try:
        assert figures(project.up())[:2] == (32, 32)
        with holder(project, "gpu-4"):
            before = everything(project)
            for name, (edit, expected) in EDITS.items():
                project.edit(edit, hardware=False)
                done = project.command("preview")
                project.write(kept, hardware=False)
                assert re.search(expected, done.stdout), f"{name}: {done.stdout}"
                after = everything(project)
                changed = {part for part in before if before[part] != after[part]}
                assert not changed, f"{name}: {changed}"
        assert len(EDITS) >= 20
        assert figures(project.up()) == (32, 32, 0)
    finally:
        project.write(kept, hardware=False)
        assert project.command("destroy").returncode == 0


def stop_host(project: Project, name: str) -> None:
    processes.end(hosts_dir(project.stack) / name)


@pytest.mark.full
@pytest.mark.promise(
    "A host that cannot be reached fails each run that would change it, in previews too, and is "
    "one warning in all other runs."
)
def test_an_unreachable_host_fails_the_runs_that_need_it(project: Project) -> None:
    kept = project.read()
    try:
        project.up()
        stop_host(project, "gpu-2")
        same = project.command("preview")
        assert same.returncode == 0, same.stdout
        assert len(re.findall(r"host gpu-2: found", same.stdout)) == 1, same.stdout
        again = project.command("up")
        assert again.returncode == 0, again.stdout
        stop_host(project, "gpu-2")
        project.edit(section(validation={"timeoutSeconds": 121}), hardware=False)
        elsewhere = project.command("preview")
        assert elsewhere.returncode == 0, elsewhere.stdout
        project.write(kept, hardware=False)
        project.edit(host(port=1), hardware=False)
        for run in ("preview", "up"):
            done = project.command(run)
            assert done.returncode == 1, done.stdout
            assert "host gpu-2: found no login as " in done.stdout
            assert ":1, stage connection: Connection refused" in done.stdout
            assert "Traceback" not in done.stdout
        plain = project.pulumi("preview", "--policy-pack", "components/gpu_cluster/guardrails/pack")
        assert plain.returncode != 0, plain.stdout
        without = project.command("preview", GPU_CLUSTER_INSPECTION="cluster")
        assert without.returncode == 0, without.stdout
    finally:
        project.write(kept, hardware=False)
        assert project.command("start").returncode == 0
        assert project.command("destroy").returncode == 0


@pytest.mark.promise("A preview starts no embedded cluster: it names the command that does.")
def test_a_preview_without_its_cluster_names_the_command_that_starts_it(tmp_path: Path) -> None:
    made = Project.make(tmp_path, own_name("unstarted"))
    hidden = made.hardware_file
    hidden.unlink()
    done = made.command("preview")
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == [
        f"preview: failed: embedded cluster of stack {made.stack}: found no process; wanted: "
        "one that runs: a preview starts nothing; cure: run "
        f"`gpu-cluster start --stack {made.stack}`"
    ]
    assert not list((toolchain.cache_dir() / "embedded").glob(f"{made.stack}*"))
    assert not list(made.state.iterdir())
    assert not hidden.exists()


@pytest.mark.full
def test_a_stack_without_a_hardware_file_gets_one_when_it_is_started(tmp_path: Path) -> None:
    made = Project.make(tmp_path, own_name("unwritten"))
    text = made.hardware_file.read_text()
    made.hardware_file.unlink()
    with started(made):
        assert made.hardware_file.read_text() == text
        made.hardware_file.write_text(text.replace("gpu-[1-4]", "gpu-[1-3]"))
        done = made.command("start")
        assert done.returncode == 0, done.stdout
        nodes = [node["metadata"]["name"] for node in made.request("GET", "nodes")["items"]]
        assert nodes == ["control-plane-1", "gpu-1", "gpu-2", "gpu-3"]
        done = made.command("preview")
        assert done.returncode == 1, done.stdout
        assert "node gpu-4: found no such node in the cluster" in done.stdout
        made.hardware_file.write_text("version: v1\n")
        done = made.command("start")
        assert done.returncode == 1
        assert "nodes (line 1): found nothing" in done.stdout


@pytest.mark.full
def test_a_real_stack_is_previewed_on_a_substitute_that_was_started(tmp_path: Path) -> None:
    made = Project.make(tmp_path, own_name("substitute"))
    made.hardware_file.unlink()
    made.edit(section(kubernetes={"context": "a-real-one"}), hardware=False)
    made.environment["EMBEDDED"] = "1"
    try:
        refused = made.command("preview")
        assert refused.returncode == 1
        assert f"Run `gpu-cluster start --stack {made.stack} --embedded` first." in refused.stdout
        assert made.command("start").returncode == 0
        done = made.command("preview")
        assert done.returncode == 0, done.stdout
        assert not made.hardware_file.exists()
    finally:
        made.command("down")
