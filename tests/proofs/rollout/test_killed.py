"""A rollout that was killed at any of its steps is continued by the next run."""

from __future__ import annotations

import pytest

from gpu_cluster.hosts.disruption import UNFINISHED
from tests.proofs.rollout.site import REBOOT, Site

pytestmark = pytest.mark.full

WORKERS = ("gpu-1", "gpu-2", "gpu-3")
POINTS = (
    "gpu-1 has all", "gpu-1 cordoned", "gpu-1 drained", "gpu-1 reboots", "gpu-1 changed",
    "gpu-1 done", "gpu-2 cordoned", "gpu-2 drained", "gpu-2 changed", "gpu-2 done",
    "gpu-3 drained", "gpu-3 changed",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_is_ended_by_the_next(site: Site, point: str) -> None:
    on = site.applied("gpu-1", "containerd nvidia ")
    change = {"runtime": {"defaultRuntime": "runc" if on else "nvidia"}}
    if "reboots" in point:
        path = site.hosts["gpu-1"].root / REBOOT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("another driver is loaded\n")
    site.workload("kill", "gpu-1")
    with site.watched() as seen:
        site.killed(site.input(**change), point)
        left = [name for name in WORKERS if not site.is_free(name)]
        assert len(left) <= 1, "a killed run leaves one node out of use, not more"
        site.roll(**change)
    assert max(map(len, seen)) <= 1, "a node that was left is given back before the next goes"
    _, plan = site.plan(**change)
    assert not plan.changes
    assert all(site.is_free(name) for name in site.hosts)
    assert not any(
        UNFINISHED in text for f in site.facts().values() for text in f.disrupts.values()
    )
    site.running("kill")
    site.clear("kill")
