"""Rollouts of host changes with real sshd, containerd, API server and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.hosts.phases import runtime_script
from gpu_cluster.loading.loader import load
from gpu_cluster.rollout.plan import words
from tests.desired_host import desired_host
from tests.proofs.rollout.site import REBOOT, Site

pytestmark = pytest.mark.full

Json = dict[str, Any]
WORKERS = ("gpu-1", "gpu-2", "gpu-3")


def other(site: Site) -> Json:
    """Return a section of a stack file that changes the applied default container runtime."""
    default = "runc" if site.applied("gpu-1", "containerd nvidia ") else "nvidia"
    return {"runtime": {"defaultRuntime": default}}


def is_on(site: Site, name: str, change: Json) -> bool:
    """Check that a host has the default container runtime of the changed section."""
    return site.applied(name, f"containerd {change['runtime']['defaultRuntime']} ")


def settled(site: Site, change: Json) -> bool:
    """Check that the whole changed configuration is applied and that no node is cordoned."""
    _, plan = site.plan(**change)
    return not plan.changes and all(site.is_free(name) for name in site.hosts)


def test_workers_are_changed_canary_first_and_never_more_than_declared(site: Site) -> None:
    change = other(site)
    site.workload("moved", "gpu-1")
    before = site.pods("moved")
    _, plan = site.plan(**change, rollout={"maxUnavailable": 2})
    assert any(
        line.startswith("node gpu-1: evicts 1 of moved/Deployment w") for line in words(plan)
    )
    with site.watched() as seen:
        rolled = site.roll(**change, rollout={"maxUnavailable": 2, "drainTimeoutSeconds": 30})
    assert sorted(rolled) == list(WORKERS)
    assert rolled[0] == "gpu-1"
    assert max(map(len, seen)) <= 2
    first = next(down for down in seen if down)
    assert first == {"gpu-1"}
    assert settled(site, change)
    site.running("moved")
    assert set(site.pods("moved")).isdisjoint(before)
    site.clear("moved")


def test_a_second_run_touches_nothing(site: Site) -> None:
    change = other(site)
    assert site.roll(**change) == list(WORKERS)
    trees = {name: host.tree() for name, host in site.hosts.items()}
    assert site.roll(**change) == []
    assert trees == {name: host.tree() for name, host in site.hosts.items()}


def test_outside_of_a_rollout_a_host_refuses_what_disrupts(site: Site) -> None:
    cluster = load({**site.document, **other(site)})
    result = site.hosts["gpu-1"].run("sh -s -- apply", runtime_script(desired_host(cluster, 1)))
    assert result.status != 0
    assert "found a change of runtime outside of a rollout" in result.errors


def test_a_budget_is_waited_for_and_a_rollout_that_waits_too_long_changes_nothing(
    site: Site,
) -> None:
    change = other(site)
    site.workload("kept", "gpu-1")
    budget = {
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    url = "namespaces/kept/poddisruptionbudgets"
    site.request("POST", url, base="/apis/policy", body=budget)
    before = site.pods("kept")
    _, plan = site.plan(**change)
    assert plan.views["gpu-1"].budgets == ("kept/kept",)
    said = site.fail(**change, rollout={"drainTimeoutSeconds": 2})
    assert "1 pod still there after 2 s: kept/w-" in said
    assert "rollout: gpu-2, gpu-3: found not started, because an earlier node failed" in said
    assert site.pods("kept") == before
    assert not any(is_on(site, name, change) for name in WORKERS)
    assert all(site.is_free(name) for name in WORKERS)
    site.request("DELETE", f"{url}/kept", base="/apis/policy")
    assert site.roll(**change) == list(WORKERS)
    site.clear("kept")


@pytest.mark.parametrize("consent", ["empty-dir", "unmanaged"])
def test_what_would_be_lost_stops_it_before_any_node_is_touched(site: Site, consent: str) -> None:
    change = other(site)
    site.would_lose(consent, "gpu-3")
    assert "node gpu-3: found pods that" in site.fail(**change)
    assert not any(is_on(site, name, change) for name in WORKERS)
    assert all(site.is_free(name) for name in WORKERS)
    assert site.roll(**change, rollout={"evict": [consent]}) == list(WORKERS)
    assert settled(site, change)
    if consent == "empty-dir":
        site.clear("local")


def test_who_else_works_on_a_node_is_left_alone_and_the_rest_goes_on(site: Site) -> None:
    change = other(site)
    site.patch("gpu-2", {"spec": {"unschedulable": True}})
    label = "nvidia.com/gpu-driver-upgrade-state"
    site.patch("gpu-3", {"metadata": {"labels": {label: "drain-required"}}})
    try:
        _, plan = site.plan(**change)
        assert plan.left == {
            "gpu-2": "cordoned, not by this program",
            "gpu-3": "the GPU Operator is at work on its driver (drain-required)",
        }
        assert site.roll(**change) == ["gpu-1"]
        assert site.node("gpu-2")["spec"]["unschedulable"] is True
    finally:
        site.patch("gpu-2", {"spec": {"unschedulable": None}})
        site.patch("gpu-3", {"metadata": {"labels": {label: None}}})
    assert site.roll(**change) == ["gpu-2", "gpu-3"]


def test_after_a_failure_the_rest_is_untouched_and_the_next_run_goes_on(site: Site) -> None:
    change = other(site)
    canary = site.hosts["gpu-1"]
    canary.write("/usr/local/bin/systemctl", "#!/bin/sh\n[ \"$1\" != restart ] || exit 1\n"
                 "exec /usr/bin/systemctl \"$@\"\n")  # fmt: skip
    canary.run("chmod 755 /usr/local/bin/systemctl")
    said = site.fail(**change)
    assert "host gpu-1: found runtime ended with status 1" in said
    assert "rollout: gpu-2, gpu-3: found not started, because an earlier node failed" in said
    assert not site.is_free("gpu-1")
    for name in ("gpu-2", "gpu-3"):
        assert site.is_free(name)
        assert not is_on(site, name, change)
    (canary.root / "usr/local/bin/systemctl").unlink()
    assert site.roll(**change) == list(WORKERS)
    assert settled(site, change)


def test_a_host_is_rebooted_only_if_it_asks_for_it(site: Site) -> None:
    change = other(site)
    boots = {
        name: host.read("/proc/sys/kernel/random/boot_id") for name, host in site.hosts.items()
    }
    path = site.hosts["gpu-2"].root / REBOOT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("another driver is loaded\n")
    assert site.roll(**change) == list(WORKERS)
    after = {
        name: host.read("/proc/sys/kernel/random/boot_id") for name, host in site.hosts.items()
    }
    assert {name for name in boots if boots[name] != after[name]} == {"gpu-2"}
    assert settled(site, change)
