"""Tests of SIGKILL in the middle of runs, at fixed and at random moments.

The next run must complete what the killed run left.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.release.helm_record import decode_release, encode_release, secrets_of
from gpu_cluster_lab import simulator
from tests.promises import KILL_SEED
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.kills import Killer, chance
from tests.proofs.e2e.project import Project, figures

pytestmark = pytest.mark.slow

Json = dict[str, Any]

POINTS = [
    pytest.param("gpu-cluster-host-preparation-gpu-1", id="host", marks=pytest.mark.full),
    pytest.param("gpu-cluster-gpu-platform-release", id="release"),
    pytest.param("gpu-cluster-validation.pools", id="validation", marks=pytest.mark.full),
]
FEW, MORE, PARTS = 10, 6, 5
"""Random kills in `make test-full`, and in each of the parts that `make test-promises` adds."""


def plugins(stack: str) -> set[int]:
    """Return the pids of plugins of this stack's engines.

    Other tests run plugins of other stacks in parallel.
    """
    result = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
        except OSError:
            continue
        ours = f"STACK={stack}".encode() in environment.split(b"\0")
        if ours and re.search(rb"pulumi-(resource|language)-", text):
            result.add(int(path.name))
    return result


def kill_at_random(
    project: Project, count: int, source: random.Random, note: Callable[[str, object], None]
) -> None:
    """Kill `count` commands; fail with all faults that the next `up` did not repair."""
    declared = project.read()
    try:
        project.up()
        killed = list(Killer(project, source).kills(count))
    finally:
        project.write(declared)
        project.command("destroy")
    faulty = [kill for kill in killed if kill.faults]
    note("kills", len(killed))
    note("kills_healed", len(killed) - len(faulty))
    seed = f"{KILL_SEED}={os.environ[KILL_SEED]}"
    assert not faulty, "\n\n".join([seed, *map(str, faulty)])


@pytest.mark.promise(
    "After a run is killed the next `up` heals, and the one after refreshes and changes nothing."
)
def test_random_kills_are_healed(
    project: Project, record_property: Callable[[str, object], None]
) -> None:
    kill_at_random(project, FEW, chance(os.environ[KILL_SEED]), record_property)


@pytest.mark.full
@pytest.mark.promise(
    "After `up`, `preview`, `destroy` or `validate` is killed at any moment, one `up` heals."
)
@pytest.mark.parametrize("part", range(PARTS))
def test_more_random_kills_are_healed(
    project: Project, record_property: Callable[[str, object], None], part: int
) -> None:
    kill_at_random(project, MORE, chance(f"{os.environ[KILL_SEED]} more {part}"), record_property)


@pytest.mark.parametrize("resource", POINTS)
def test_a_killed_up_and_a_killed_destroy_converge(project: Project, resource: str) -> None:
    objects = snapshot.cluster(project)
    hosts = {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}
    assert "gpu-validation" not in {path.rpartition("/")[2] for path in objects}

    project.kill_during("up", f"{resource} creating")
    healing = project.command("up")
    # `up` must report that it removed the lock of the killed run.
    assert "Removed the stale lock" in healing.stdout
    assert figures(healing.stdout.strip().splitlines()[-1])[:2] == (32, 32)
    assert figures(project.up()) == (32, 32, 0)

    project.kill_during("destroy", f"{resource} deleting")
    refused = project.pulumi("destroy", "--yes", "--skip-preview")
    assert refused.returncode != 0
    assert "pulumi cancel" in refused.stdout
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout

    assert snapshot.cluster(project) == objects
    assert hosts == {name: snapshot.host(project.host_root(name)) for name in hosts}


@pytest.mark.full
@pytest.mark.promise("`up` never reports success while Helm's newest record is not deployed.")
def test_an_upgrade_that_was_killed_is_done_by_the_next_up(project: Project) -> None:
    space = name = "nvidia-device-plugin"
    declared = project.read()
    assert figures(project.up())[:2] == (32, 32)

    def newest() -> Json:
        return project.ask(lambda client: secrets_of(client, name, space))[-1]

    # Imitate Helm killed in the middle of an upgrade: the new release record exists, but no object
    # has changed.
    before = newest()
    release = decode_release(before)
    release["version"] += 1
    release["info"]["status"] = "pending-upgrade"
    release["config"].setdefault("podAnnotations", {})["example.com/edit"] = "new"
    labels = {"status": "pending-upgrade", "version": str(release["version"])}
    body = {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{release['version']}",
            "labels": {**before["metadata"]["labels"], **labels},
        },
        "type": before["type"],
        "data": {"release": encode_release(release)},
    }
    project.request("POST", f"namespaces/{space}/secrets", body=body)
    annotations = {"podAnnotations": {"example.com/edit": "new"}}
    try:
        project.edit(lambda cluster: cluster.update(devicePlugin={"extraValues": annotations}))
        # After a killed update, Pulumi's refresh reads the values in the pending release record.
        assert project.pulumi("refresh", "--yes", "--skip-preview").returncode == 0
        done = project.command("up")
        assert done.returncode == 0, done.stdout
        assert "is pending-upgrade" in done.stdout
        assert decode_release(newest())["info"]["status"] == "deployed"
        daemon_set = f"namespaces/{space}/daemonsets/{name}"
        template = project.request("GET", daemon_set, base="/apis/apps")["spec"]["template"]
        assert template["metadata"]["annotations"]["example.com/edit"] == "new"
        assert figures(project.up()) == (32, 32, 0)
    finally:
        project.write(declared)
        project.command("destroy")


def test_a_cluster_made_anew_gets_everything_again(project: Project) -> None:
    assert figures(project.up())[:2] == (32, 32)
    simulator.down(project.stack)
    again = project.command("up")
    assert "recreated" in again.stdout
    assert figures(again.stdout.strip().splitlines()[-1])[:2] == (32, 32), again.stdout
    assert "nvidia.com/gpu=present:NoSchedule" in again.stdout
    assert figures(project.up()) == (32, 32, 0)
    simulator.down(project.stack)
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout


def test_an_empty_attributes_file_of_a_killed_write_stops_nothing(project: Project) -> None:
    # This `destroy` creates the state file that the test needs.
    assert project.command("destroy").returncode == 0
    assert list(project.state.rglob("*.attrs")) == []
    (path,) = (project.state / ".pulumi" / "stacks").rglob(f"{project.stack}.json")
    path.with_name(f"{path.name}.attrs").touch()
    assert project.command("destroy").returncode == 0
    assert list(project.state.rglob("*.attrs")) == []
    assert project.pulumi("stack", "export").returncode == 0


def test_no_plugin_outlives_its_engine(project: Project) -> None:
    project.kill_during("up", "gpu-cluster-host-preparation-gpu-1 creating")
    # Plugins of the killed engine still run, because they wait for their engine.
    assert plugins(project.stack)
    assert project.command("up").returncode == 0
    assert project.pulumi("destroy", "--yes", "--skip-preview").returncode == 0
    assert plugins(project.stack) == set()
