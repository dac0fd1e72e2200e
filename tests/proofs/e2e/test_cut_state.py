"""`gpu-cluster up` after the files of its backend were cut, as a full disk leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures

pytestmark = pytest.mark.full


def state_of(project: Project) -> Path:
    return project.state / ".pulumi" / "stacks" / "gpu-cluster" / f"{project.stack}.json"


@pytest.mark.promise(
    "After its state was cut or lost, one `gpu-cluster up` heals, the next changes nothing, and "
    "`gpu-cluster destroy` leaves nothing."
)
def test_a_cut_or_lost_state_heals_and_can_be_destroyed(project: Project) -> None:
    objects = snapshot.cluster(project)
    hosts = {name: snapshot.host(project.host_root(name)) for name in ("gpu-1", "gpu-2")}
    assert figures(project.up())[:2] == (32, 32)
    state = state_of(project)
    state.write_bytes(state.read_bytes()[:5000])
    done = project.command("up")
    assert done.returncode == 0, done.stdout
    assert f"is restored from {state.name}.bak" in done.stdout
    assert figures(project.up()) == (32, 32, 0)

    for path in (project.state / ".pulumi").rglob("*.json*"):
        path.write_bytes(b"")
    refused = project.command("up")
    assert refused.returncode == 1
    assert "no copy that can be read" in refused.stdout.splitlines()[-1], refused.stdout
    assert "move it away and run `gpu-cluster up`" in refused.stdout.splitlines()[-1]
    state.rename(state.with_name("away"))
    assert figures(project.up())[:2] == (32, 32)
    assert figures(project.up()) == (32, 32, 0)

    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(project) == objects
    assert hosts == {name: snapshot.host(project.host_root(name)) for name in hosts}
