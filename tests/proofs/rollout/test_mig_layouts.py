"""Changes of MIG layouts with a real API server and evictions, and a simulated MIG manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import APPLY
from gpu_cluster.kubernetes.resources import MIG_LABEL
from gpu_cluster.nodes import drain, node_scheduling
from gpu_cluster.nodes.inspect import managed_by
from gpu_cluster.rollout.mig_layouts_plan import blockers, words
from tests.guard import own_name
from tests.proofs.rollout.mig_layouts import Divided

pytestmark = pytest.mark.full

Json = dict[str, Any]
NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
SMALL, LARGE = {"1g.5gb": 7}, {"3g.20gb": 2}
OFFERED = {"1g.5gb": "56", "3g.20gb": "16"}
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
HOLDING = {"containers": [{"name": "c", "image": "sample", **GPU}]}


@pytest.fixture(scope="module")
def site() -> Iterator[Divided]:
    """Yield a test site with four nodes whose GPUs are not partitioned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drain, "PAUSE", 0.1)
        patch.setenv("KUBECONFIG", "")
        made = Divided(own_name("layouts"))
        try:
            made.start()
            yield made
        finally:
            made.close()


def other(site: Divided) -> Json:
    """Return a MIG layout that no node currently has."""
    return LARGE if site.gpus("gpu-4") == OFFERED["1g.5gb"] else SMALL


def is_divided(site: Divided, mig: Json) -> bool:
    """Check that all nodes have the MIG layout, advertise its devices and are uncordoned."""
    site.offer(NODES, OFFERED[next(iter(mig))])
    plan = site.layout_plan(site.declared_with(mig))
    return not plan.changes and all(site.is_free(name) for name in NODES)


def test_a_changed_layout_reaches_each_gpu_and_nodes_with_pods_go_one_by_one(
    site: Divided,
) -> None:
    for node in ("gpu-1", "gpu-2"):
        site.workload(f"held-{node}", node, **HOLDING)
    mig = other(site)
    plan = site.layout_plan(site.declared_with(mig))
    said = list(words(plan))
    assert said[0] == "MIG layout of 4 nodes: 2 without pods, 2 in waves, 2 pods evicted"
    assert "node gpu-1: evicts 1 of held-gpu-1/Deployment w" in said
    with site.watched() as seen:
        changed = site.divide(mig)
    assert sorted(changed[:2]) == ["gpu-3", "gpu-4"]
    assert changed[2:] == ["gpu-1", "gpu-2"]
    assert not any({"gpu-1", "gpu-2"} <= down for down in seen)
    assert is_divided(site, mig)
    for node in ("gpu-1", "gpu-2"):
        site.running(f"held-{node}")
        site.clear(f"held-{node}")


def test_a_second_run_touches_nothing(site: Divided) -> None:
    mig = other(site)
    site.divide(mig)
    assert is_divided(site, mig)
    labels = {name: site.node(name)["metadata"]["labels"] for name in NODES}
    pods = {name: site.manager(name) for name in NODES}
    assert site.divide(mig) == []
    assert labels == {name: site.node(name)["metadata"]["labels"] for name in NODES}
    assert pods == {name: site.manager(name) for name in NODES}


def test_a_failure_of_mig_manager_leaves_the_rest_as_it_was_and_the_next_run_goes_on(
    site: Divided,
) -> None:
    before, mig = other(site), {"2g.10gb": 3}
    site.divide(before)
    assert is_divided(site, before)
    was = site.layout("gpu-2")
    # The new layout is missing in the ConfigMap, so the MIG manager doesn't know its name.
    said = site.refused(mig, served=False)
    wanted = site.asked(site.declared_with(mig)).layouts.pools[0].layout
    assert f"node gpu-1: found nvidia.com/mig.config.state: failed; wanted: layout {wanted}" in said
    assert "rollout: gpu-2, gpu-3, gpu-4: found not started, because an earlier node failed" in said
    assert not site.is_free("gpu-1")
    assert [site.layout(name) for name in NODES[1:]] == [was] * 3
    assert all(site.is_free(name) for name in NODES[1:])
    assert site.divide(mig)[0] == "gpu-1"
    site.offer(NODES, "24")


@pytest.mark.parametrize("consent", ["empty-dir", "unmanaged"])
def test_what_would_be_lost_stops_it_before_any_node_is_touched(
    site: Divided, consent: str
) -> None:
    mig = other(site)
    site.would_lose(consent, "gpu-3")
    assert list(blockers(site.layout_plan(site.declared_with(mig))))
    before = [site.layout(name) for name in NODES]
    assert "node gpu-3: found pods that" in site.refused(mig)
    assert [site.layout(name) for name in NODES] == before
    assert all(site.is_free(name) for name in NODES)
    rollout = {"evict": [consent], "drainTimeoutSeconds": 60}
    assert sorted(site.divide(mig, rollout=rollout)) == list(NODES)
    assert is_divided(site, mig)
    if consent == "empty-dir":
        site.clear("local")


def test_a_budget_that_allows_no_disruption_keeps_its_node_as_it_was(site: Divided) -> None:
    mig = other(site)
    site.workload("kept", "gpu-1", **HOLDING)
    budget = {
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    url = "namespaces/kept/poddisruptionbudgets"
    site.request("POST", url, base="/apis/policy", body=budget)
    before, pods = site.layout("gpu-1"), site.pods("kept")
    said = site.refused(mig, rollout={"drainTimeoutSeconds": 2})
    assert "node gpu-1: found 1 pod still there after 2 s: kept/w-" in said
    assert (site.layout("gpu-1"), site.pods("kept")) == (before, pods)
    assert site.is_free("gpu-1")
    site.request("DELETE", f"{url}/kept", base="/apis/policy")
    assert site.divide(mig) == ["gpu-1"]
    assert is_divided(site, mig)
    site.clear("kept")


def test_who_else_works_on_a_node_and_maintenance_are_left_alone(site: Divided) -> None:
    mig = other(site)
    before = site.layout("gpu-2")
    site.patch("gpu-2", {"spec": {"unschedulable": True}})
    try:
        plan = site.layout_plan(site.declared_with(mig))
        assert plan.left == {"gpu-2": "cordoned, not by this program"}
        assert sorted(site.divide(mig, maintenance=["gpu-3"])) == ["gpu-1", "gpu-4"]
        assert site.layout("gpu-2") == site.layout("gpu-3") == before
    finally:
        site.patch("gpu-2", {"spec": {"unschedulable": None}})
    assert sorted(site.divide(mig)) == ["gpu-2", "gpu-3"]
    assert is_divided(site, mig)


@pytest.mark.parametrize("line", ["cordoned", "drained", "has layout", "validated"])
def test_killed_at_any_moment_the_next_run_goes_on(site: Divided, line: str) -> None:
    site.workload("held", "gpu-1", **HOLDING)
    mig = other(site)
    cluster = site.declared_with(mig)
    site.serve(cluster)
    site.killed(site.asked(cluster), f"gpu-1 {line}", "mig-layouts", "apply")
    assert not site.is_free("gpu-1")
    assert "gpu-1" in site.divide(mig)
    assert is_divided(site, mig)
    site.running("held")
    site.clear("held")


def test_the_label_of_a_former_release_stays_until_its_node_s_turn(site: Divided) -> None:
    mig = other(site)
    site.divide(mig)
    cluster = site.declared_with(mig)
    document = resolve(cluster, "t").scheduling.pools[0]
    (layouts,) = document.hands_over.values()
    before = site.layout("gpu-1")
    for name in NODES:  # In an earlier release, the pool's field manager owned the label.
        for manager, labels in ((document.manager, {MIG_LABEL: before}), (layouts, {})):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            body["metadata"]["labels"] = labels  # type: ignore[index]
            params = {"fieldManager": manager, "force": "true"}
            url = f"nodes/{name}"
            site.request("PATCH", url, body=body, content_type=APPLY, params=params)
    asyncio.run(node_scheduling.apply(document))
    assert [site.layout(name) for name in NODES] == [before] * 4
    assert all(managed_by(site.node(name), layouts) for name in NODES)
    asyncio.run(node_scheduling.release(document))
    assert [site.layout(name) for name in NODES] == [before] * 4


def test_a_layout_that_is_taken_away_gives_whole_gpus_back_in_waves(site: Divided) -> None:
    site.divide(other(site))
    site.workload("held", "gpu-1", **HOLDING)
    manager = site.asked(site.declared_with(None)).layouts.manager
    assert managed_by(site.node("gpu-1"), manager)
    changed = site.divide(None)
    assert (sorted(changed), changed[-1]) == (list(NODES), "gpu-1")
    site.offer(NODES, "8")
    assert not any(managed_by(site.node(name), manager) for name in NODES)
    assert site.divide(None) == []
    site.clear("held")
