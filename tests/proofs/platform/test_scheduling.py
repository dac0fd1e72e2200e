"""Labels, taints, priority classes and GPU limits of pools, on a real API server."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from gpu_cluster.desired.pool import PoolsScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.scheduling_classes import features
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import node_scheduling as scheduling
from gpu_cluster.platforms.gpu_operator import operator_labels
from gpu_cluster.platforms.requests import NodeKeysRequest
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator.controller import features as simulated
from gpu_rules.rules import Context, evaluate
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.definitions import defined, definition
from tests.proofs.platform.ways import look

Json = dict[str, Any]

NFD = "feature.node.kubernetes.io/"
OWN_TAINT = "example.com/own=x:NoSchedule"


def cluster(stack: str, pools: list[Json], **changes: Any) -> Cluster:
    return load(ways.declared(stack, "device-plugin", pools=pools, **changes))


def pool(name: str, *nodes: str, **more: Any) -> Json:
    # These tests run no validation. Only a validation would remove the start-up taint.
    plain = {"gpusPerNode": 8, "startupTaint": False}
    return {"name": name, "nodes": list(nodes), **plain, **more}


def run(project: Project, declared: Cluster, action: str) -> list[Json]:
    work = {"apply": scheduling.apply, "release": scheduling.release}[action]
    pools = resolve(declared, "test").scheduling.pools
    request = PoolsScheduling(context=pools[0].context, pools=pools)
    return [project.ask(lambda _: work(request))]


def test_a_node_that_leaves_a_pool_loses_what_we_set_and_only_that(project: Project) -> None:
    before = look(project)
    somebody = {"metadata": {"labels": {"somebody/else": "kept"}}}
    merge = {"content_type": "application/merge-patch+json"}
    project.request("PATCH", "nodes/gpu-2", body=somebody, **merge)
    try:
        both = cluster(project.stack, [pool("a100", "gpu-1", "gpu-2")])
        assert [output["changed"] for output in run(project, both, "apply")] == [2]
        assert [output["changed"] for output in run(project, both, "apply")] == [0]
        labels, taints = look(project)["gpu-2"]
        assert labels["nvidia.com/gpu"] == "true"
        assert [taint["key"] for taint in taints] == ["nvidia.com/gpu"]

        one = cluster(project.stack, [pool("a100", "gpu-1")])
        assert run(project, one, "apply")[0]["released"] == 1
        labels, taints = look(project)["gpu-2"]
        assert labels == {**before["gpu-2"][0], "somebody/else": "kept"}
        assert taints == before["gpu-2"][1]
        run(project, one, "release")
    finally:
        nobody = {"metadata": {"labels": {"somebody/else": None}}}
        project.request("PATCH", "nodes/gpu-2", body=nobody, **merge)
    assert look(project) == before


def kept_on(project: Project, *names: str) -> Json:
    """Return labels, taints and whether each named node can be used, as pods meet them."""
    return {name: look(project)[name] for name in names}


@pytest.mark.promise(
    "A pool that only gets another name keeps the labels and taints of its nodes, in every moment."
)
def test_a_renamed_pool_leaves_labels_and_taints_of_its_nodes(project: Project) -> None:
    before = look(project)
    old = cluster(project.stack, [pool("a100", "gpu-1", "gpu-2", taints=[OWN_TAINT])])
    new = cluster(project.stack, [pool("h100", "gpu-1", "gpu-2", taints=[OWN_TAINT])])
    run(project, old, "apply")
    applied = kept_on(project, "gpu-1", "gpu-2")
    assert applied["gpu-1"] != before["gpu-1"]
    # A program whose pools share no Command, such as that of an earlier version, releases the old
    # name last.
    run(project, new, "apply")
    assert kept_on(project, "gpu-1", "gpu-2") == applied
    run(project, old, "release")
    assert kept_on(project, "gpu-1", "gpu-2") == applied
    assert [output["changed"] for output in run(project, new, "apply")] == [0]
    run(project, new, "release")
    assert look(project) == before


@pytest.mark.parametrize("first", ["joins", "leaves"])
def test_a_node_that_moves_to_another_pool_keeps_what_both_declare(
    project: Project, first: str
) -> None:
    """The order of the pools in the stack file makes no difference."""
    before = look(project)
    start = [pool("a100", "gpu-1"), pool("l4", "gpu-2", "gpu-3", taints=[OWN_TAINT])]
    moved = [pool("a100", "gpu-1", "gpu-2"), pool("l4", "gpu-3", taints=[OWN_TAINT])]
    run(project, cluster(project.stack, start), "apply")
    after = cluster(project.stack, moved if first == "joins" else moved[::-1])
    run(project, after, "apply")
    labels, taints = look(project)["gpu-2"]
    assert labels == look(project)["gpu-1"][0] | {
        key: value for key, value in labels.items() if key == "kubernetes.io/hostname"
    }
    assert taints == look(project)["gpu-1"][1]
    assert [output["changed"] for output in run(project, after, "apply")] == [0]
    run(project, after, "release")
    assert look(project) == before


def test_a_label_that_another_set_first_stays_when_the_other_takes_it_back(
    project: Project,
) -> None:
    """A label that a pool declares stays when the GPU Operator's leftover labels are removed."""
    before = look(project)
    key = "nvidia.com/gpu.product"
    merge = {"content_type": "application/merge-patch+json"}
    run(project, cluster(project.stack, [pool("a100", "gpu-1")]), "apply")
    theirs = {"metadata": {"labels": {key: "A100"}}}
    project.request("PATCH", "nodes/gpu-1", body=theirs, **merge)
    labels = {"nvidia.com/gpu": "true", key: "A100"}
    declared = cluster(project.stack, [pool("a100", "gpu-1", labels=labels)])
    assert [output["changed"] for output in run(project, declared, "apply")] == [1]
    assert [output["changed"] for output in run(project, declared, "apply")] == [0]
    left = NodeKeysRequest(context=f"gpu-cluster-{project.stack}", labels=(key,), annotations=())
    project.ask(lambda _: operator_labels.remove(left))
    assert look(project)["gpu-1"][0][key] == "A100"
    run(project, declared, "release")
    assert look(project) == before


def test_a_single_node_has_its_own_labels_and_taints_before_its_pool_s(project: Project) -> None:
    before = look(project)
    own = {"labels": {"nvidia.com/gpu": "spare"}, "taints": ["example.com/reserved:NoExecute"]}
    declared = cluster(
        project.stack, [pool("a100", "gpu-1", "gpu-2")], scheduling={"nodes": {"gpu-2": own}}
    )
    run(project, declared, "apply")
    findings = look(project)
    assert findings["gpu-1"][0]["nvidia.com/gpu"] == "true"
    assert findings["gpu-2"][0]["nvidia.com/gpu"] == "spare"
    assert {taint["key"] for taint in findings["gpu-2"][1]} == {
        "nvidia.com/gpu",
        "example.com/reserved",
    }
    assert {taint["key"] for taint in findings["gpu-1"][1]} == {"nvidia.com/gpu"}
    run(project, declared, "release")
    assert look(project) == before


@pytest.mark.parametrize("answered", range(6))
def test_what_a_killed_run_left_is_known_as_ours(
    project: Project, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """A run is killed after each of its requests in turn.

    The next run must complete or remove the changes of the killed run.
    """
    before = look(project)
    declared = cluster(project.stack, [pool("a100", "gpu-1")])
    request, made = Client.request, 0

    class Killed(Exception):
        pass

    async def cut(self: Client, *args: Any, **more: Any) -> Any:
        nonlocal made
        made += 1
        if made > answered:
            raise Killed
        return await request(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Client, "request", cut)
        with suppress(Killed, ExceptionGroup):
            run(project, declared, "apply")
    run(project, declared, "apply")
    assert [output["changed"] for output in run(project, declared, "apply")] == [0]
    run(project, declared, "release")
    assert look(project) == before


def test_classes_and_limits_are_accepted_by_the_api_server(project: Project) -> None:
    for way, cards, most in (
        ("device-plugin", 4, {"nvidia.com/gpu": "4"}),
        ("gpu-manager", 0.3, {"tencent.com/vcuda-core": "30"}),
    ):
        section = {
            "priorityClasses": [{"name": "gpu-training", "value": 1000, "preempts": False}],
            "limits": [{"namespace": "default", "maxCards": cards}],
        }
        declared = load(ways.declared(project.stack, way, scheduling=section))
        made = resolve(declared, "test").scheduling.objects
        assert set(made) == {"priority-gpu-training", "limit-default"}
        dry = {"params": {"dryRun": "All"}}
        project.request(
            "POST",
            "priorityclasses",
            base="/apis/scheduling.k8s.io",
            body=made["priority-gpu-training"],
            **dry,
        )
        limit = project.request(
            "POST", "namespaces/default/limitranges", body=made["limit-default"], **dry
        )
        assert limit["spec"]["limits"][0]["max"] == most


@pytest.mark.parametrize("way", ways.LIMITED)
def test_a_limit_of_ours_hands_out_no_gpus(way: str) -> None:
    section = {"limits": [{"namespace": "default", "maxCards": 2}]}
    declared = load(ways.declared("test", way, scheduling=section))
    made = resolve(declared, "test").scheduling.objects["limit-default"]
    assert evaluate(made, Context()) == []


def test_a_rule_finds_what_a_selector_finds_and_refuses_what_is_no_feature() -> None:
    assert features({f"{NFD}pci-0302_10de.present": "true"}) == [
        {
            "feature": "pci.device",
            "matchExpressions": {
                "class": {"op": "In", "value": ["0302"]},
                "vendor": {"op": "In", "value": ["10de"]},
            },
        }
    ]
    (term,) = features({f"{NFD}system-os_release.ID": "ubuntu"}) or []
    assert term["feature"] == "system.osrelease"
    assert term["matchExpressions"] == {"ID": {"op": "In", "value": ["ubuntu"]}}
    assert features({"team": "a"}) is None
    assert features({f"{NFD}custom-thing": "true"}) is None


def test_a_rule_gives_nodes_what_the_pool_declares_and_takes_it_back() -> None:
    selector = {f"{NFD}pci-10de.present": "true"}
    declared = cluster(
        "x",
        [{"name": "any", "selector": selector, "count": 2, "gpusPerNode": 8}],
        scheduling={"nodeFeatures": "rule"},
    )
    objects = resolve(declared, "test").scheduling.objects
    assert [*objects] == ["rule-any"]
    rule = objects["rule-any"]
    theirs = {"key": "somebody/else", "effect": "NoSchedule"}
    node: Json = {
        "metadata": {"name": "n", "labels": dict(selector), "annotations": {}},
        "spec": {"taints": [theirs]},
    }
    given = simulated.patch(node, [rule])
    assert given is not None
    assert given["metadata"]["labels"]["nvidia.com/gpu"] == "true"
    assert [taint["key"] for taint in given["spec"]["taints"]] == [
        "somebody/else",
        "nvidia.com/gpu",
    ]
    ruled = {
        "metadata": {
            "name": "n",
            "labels": {**selector, **given["metadata"]["labels"]},
            "annotations": given["metadata"]["annotations"],
        },
        "spec": given["spec"],
    }
    assert simulated.patch(ruled, [rule]) is None
    back = simulated.patch(ruled, [])
    assert back is not None
    assert back["spec"]["taints"] == [theirs]
    assert set(back["metadata"]["labels"].values()) == {None}
    other = {**node, "metadata": {**node["metadata"], "labels": {}}}
    assert simulated.patch(other, [rule]) is None


def test_a_rule_of_the_simulator_takes_the_keys_that_the_real_one_takes() -> None:
    keys = ("team", "example.com/team", "node-role.kubernetes.io/gpu", f"{NFD}own", f"a.{NFD}own")
    rule = {"matchFeatures": [], "labels": dict.fromkeys(keys, "1")}
    rule["taints"] = [{"key": key, "effect": "NoSchedule"} for key in keys]
    given = simulated.wanted([{"metadata": {"name": "a"}, "spec": {"rules": [rule]}}], {})
    assert set(given["labels"]) == {f"{NFD}team", "example.com/team", f"{NFD}own", f"a.{NFD}own"}
    assert {it["key"] for it in given["taints"]} == {"example.com/team", f"{NFD}own", f"a.{NFD}own"}


def test_of_two_rules_of_the_simulator_the_later_name_wins() -> None:
    def rule(name: str) -> Json:
        rules = [{"matchFeatures": [], "labels": {"example.com/team": name}}]
        return {"metadata": {"name": name}, "spec": {"rules": rules}}

    assert simulated.wanted([rule("b"), rule("a")], {})["labels"] == {"example.com/team": "b"}


DEFINITION = definition("nfd.k8s-sigs.io", "v1alpha1", "NodeFeatureRule", "Cluster")
# Master of Node Feature Discovery, which may taint nodes in this test.
MASTER: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "nfd-master",
        "namespace": "default",
        "labels": {"app.kubernetes.io/name": "node-feature-discovery"},
    },
    "spec": {
        "selector": {"matchLabels": {"app": "nfd-master"}},
        "template": {
            "metadata": {"labels": {"app": "nfd-master"}},
            "spec": {
                "containers": [{"name": "master", "image": "nfd", "args": ["-enable-taints"]}]
            },
        },
    },
}


@pytest.mark.full
def test_a_rule_stands_for_a_pool_of_any_size(project: Project) -> None:
    apps = "/apis/apps"
    declared = ways.declared(
        project.stack,
        "device-plugin",
        pools=[
            {
                "name": "any",
                "selector": {f"{NFD}pci-10de.present": "true"},
                "count": 3,
                "gpusPerNode": 8,
            }
        ],
        scheduling={"nodeFeatures": "rule"},
    )
    project.write(declared)
    refused = project.command("up")
    assert refused.returncode != 0
    assert "no Node Feature Discovery (nfd.k8s-sigs.io is not served)" in refused.stdout
    project.request("POST", "namespaces/default/deployments", base=apps, body=MASTER)
    try:
        with defined(project, DEFINITION):
            assert figures(project.up())[:2] == (24, 24)
            for name in ("any-1", "any-2", "any-3"):
                labels, taints = look(project)[name]
                assert labels["nvidia.com/gpu.present"] == "true"
                assert [taint["key"] for taint in taints] == ["nvidia.com/gpu"]
            assert figures(project.up())[2] == 0
            done = project.command("destroy")
            assert done.returncode == 0, done.stdout
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and look(project)["any-1"][1]:
                pass
            labels, taints = look(project)["any-1"]
            assert "nvidia.com/gpu" not in labels
            assert taints == []
    finally:
        project.command("destroy")
        project.request("DELETE", "namespaces/default/deployments/nfd-master", base=apps)
        project.write(ways.declared(project.stack, "device-plugin"))
        assert project.command("start").returncode == 0
