"""Tests of the whole stack with the real engine, an embedded cluster and real SSH.

The tests share one cluster and depend on the order in this file: from an empty cluster to an empty
cluster.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gpu_cluster.nodes import record as validated
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import DROP_IN, PRIVATE, Json, Project, figures

Before = tuple[dict[str, Json], dict[str, dict[str, str]]]


@pytest.fixture(scope="module")
def before(project: Project) -> Before:
    """Return a snapshot of cluster and hosts before the first deployment."""
    hosts = {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}
    return snapshot.cluster(project), hosts


def test_a_preview_before_the_first_run_shows_what_will_be_made(
    project: Project, before: Before
) -> None:
    done = project.command("preview")
    assert done.returncode == 0, done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(r"preview: \d+ create; 0 of 32 simulated GPUs usable; .*", last)
    assert (
        "GPUs 0 → 32 (pool a100: 0 → 32, with gpu-1..4); will be validated: gpu-1..4" in done.stdout
    )
    assert "change: host gpu-1..2: preparation not applied → applied" in done.stdout
    assert "objects: create " in done.stdout
    assert len(done.stdout.splitlines()) < 40
    assert not re.search(r"\$PATH|GPU\d{3}|^[{}]|drift: ", done.stdout, re.M)
    assert snapshot.cluster(project) == before[0]


def test_up_counts_all_declared_gpus(project: Project, before: Before) -> None:
    validated, declared, changed = figures(project.up())
    assert (validated, declared) == (32, 32)
    assert changed > 10
    assert (project.host_root("gpu-1") / DROP_IN).exists()


def test_a_second_up_changes_nothing(project: Project) -> None:
    files = {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}
    assert figures(project.up()) == (32, 32, 0)
    assert files == {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}


def test_the_stack_file_is_left_as_it_was(project: Project) -> None:
    assert "encryptionsalt" not in project.file.read_text()


def test_the_private_key_is_nowhere_in_clear(project: Project) -> None:
    assert not PRIVATE.search(project.checkpoint())
    for name in ("gpu-1", "gpu-2"):
        root = project.host_root(name)
        for path in (root / "var/lib/gpu-cluster").rglob("*"):
            assert not path.is_file() or not PRIVATE.search(path.read_text(errors="replace"))


def test_everything_simulated_is_marked(project: Project) -> None:
    output = json.loads(project.pulumi("stack", "output", "--json").stdout)
    for node in output["nodes"]:
        assert (node["simulated"], node["computed"], node["deferred"]) == (8, 0, 0)
        # The engine would print each UUID in a line of its own.
        assert "devices" not in node
    kept = [validated.decode(node) for node in project.request("GET", "nodes")["items"]]
    uuids = {uuid for found in kept if found for uuid in found.devices}
    assert all(re.fullmatch(r"GPU-00000000-[0-9a-f-]{27}", uuid) for uuid in uuids)
    assert len(uuids) == 32
    assert output["gpus"] == {"declared": 32, "computed": 0, "simulated": 32, "deferred": 0}


def test_validation_jobs_are_gone_and_the_proof_stays_on_the_nodes(project: Project) -> None:
    space = "namespaces/gpu-validation"
    assert project.request("GET", f"{space}/jobs", base="/apis/batch")["items"] == []
    assert project.request("GET", f"{space}/pods")["items"] == []
    notes = project.request("GET", "nodes/gpu-1")["metadata"]["annotations"]
    assert len(json.loads(notes["gpu-cluster/validation"])["devices"]) == 8


def destroy(project: Project, before: Before) -> None:
    """Destroy the stack; all objects and files must be as before the first deployment."""
    done = project.pulumi("destroy", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout
    objects, hosts = before
    after = snapshot.cluster(project)
    assert after.keys() == objects.keys()
    assert {path: kept for path, kept in after.items() if kept != objects[path]} == {}
    for name, files in hosts.items():
        assert snapshot.host(project.host_root(name)) == files


def test_destroy_leaves_cluster_and_hosts_as_they_were(project: Project, before: Before) -> None:
    destroy(project, before)


@pytest.mark.slow
def test_the_operator_takes_the_plugins_place_and_back_and_leaves_nothing(
    project: Project, before: Before
) -> None:
    def platform(name: str) -> None:
        project.edit(lambda cluster: cluster.update(platform=name))
        validated, declared, _ = figures(project.up())
        assert (validated, declared) == (32, 32)

    platform("gpu-operator")
    daemon_sets = project.request("GET", "daemonsets", base="/apis/apps")["items"]
    names = {item["metadata"]["name"] for item in daemon_sets}
    assert "nvidia-device-plugin-daemonset" in names
    assert "nvidia-device-plugin" not in names
    platform("device-plugin")
    destroy(project, before)


def test_down_ends_every_process_and_leaves_no_mount(project: Project) -> None:
    done = project.command("down")
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(r"down: 0 resources removed, \d+ s", done.stdout.strip().splitlines()[-1])
    needle = project.stack.encode()
    running = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if needle in words and int(path.name) != os.getpid():
            running.append((path / "cmdline").read_bytes())
    assert running == []
    assert project.stack not in Path("/proc/mounts").read_text()
