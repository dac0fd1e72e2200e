"""SIGKILL of the engine in the middle of `up` and of `destroy`: the next run converges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import simulator
from tests.e2e import snapshot
from tests.e2e.project import Project, figures

POINTS = [
    pytest.param("gpu-cluster-hosts-gpu-1", id="host"),
    pytest.param("gpu-cluster-platform-release", id="release"),
    pytest.param("gpu-cluster-validation-a100", id="validation"),
]


def plugins(stack: str) -> set[int]:
    """Plugin processes of a stack's engines; other tests have theirs at the same time."""
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


@pytest.mark.parametrize("resource", POINTS)
def test_a_killed_up_and_a_killed_destroy_converge(project: Project, resource: str) -> None:
    objects = snapshot.cluster(project)
    hosts = {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}
    assert "gpu-validation" not in {path.rpartition("/")[2] for path in objects}

    project.kill_during("up", f"{resource} creating")
    healing = project.command("up")
    assert "it is removed" in healing.stdout  # the killed run's lock
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


def test_a_cluster_made_anew_gets_everything_again(project: Project) -> None:
    assert figures(project.up())[:2] == (32, 32)
    simulator.down(project.stack)
    again = project.command("up")
    assert "made anew" in again.stdout
    assert figures(again.stdout.strip().splitlines()[-1])[:2] == (32, 32), again.stdout
    assert "nvidia.com/gpu=present:NoSchedule" in again.stdout
    assert figures(project.up()) == (32, 32, 0)
    simulator.down(project.stack)
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout


def test_an_empty_attributes_file_of_a_killed_write_stops_nothing(project: Project) -> None:
    assert project.command("destroy").returncode == 0  # so that there is a state
    assert list(project.state.rglob("*.attrs")) == []
    (path,) = (project.state / ".pulumi" / "stacks").rglob(f"{project.stack}.json")
    path.with_name(f"{path.name}.attrs").touch()
    assert project.command("destroy").returncode == 0
    assert list(project.state.rglob("*.attrs")) == []
    assert project.pulumi("stack", "export").returncode == 0


def test_no_plugin_outlives_its_engine(project: Project) -> None:
    project.kill_during("up", "gpu-cluster-hosts-gpu-1 creating")
    assert plugins(project.stack)  # they wait for an engine that is gone
    assert project.command("up").returncode == 0
    assert project.pulumi("destroy", "--yes", "--skip-preview").returncode == 0
    assert plugins(project.stack) == set()
