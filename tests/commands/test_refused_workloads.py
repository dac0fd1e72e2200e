"""Running workloads that new guardrails refuse are named before they can't start any more."""

from __future__ import annotations

from typing import Any

from gpu_cluster.commands.refused_workloads import (
    is_refusing,
    quota_uses,
    requested,
    violations_of,
    workloads_of,
)
from tests.desired_host import guarded
from tests.fixtures.clusters import cluster

ARGS = guarded(cluster(guardrails={"mode": "enforce"}))


def running(name: str, *, fits: bool, **metadata: Any) -> dict[str, Any]:
    """Return a pod as the API server returns it; one that does not fit takes GPUs by a variable."""
    container: dict[str, Any] = {"name": "main", "image": "sample@sha256:" + 64 * "a"}
    amount = {"nvidia.com/gpu": "1"}
    container["resources"] = {"limits": amount, "requests": amount} if fits else {}
    if not fits:
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    return {
        "metadata": {"namespace": "team-a", "name": name, "labels": {}, **metadata},
        "spec": {"nodeName": "gpu-1", "containers": [container], "tolerations": [toleration]},
        "status": {"phase": "Running"},
    }


def of_a_deployment(number: int) -> dict[str, Any]:
    owner = {
        "kind": "ReplicaSet",
        "name": "web-5d9f7c",
        "controller": True,
        "apiVersion": "apps/v1",
    }
    labels = {"pod-template-hash": "5d9f7c"}
    name = f"web-5d9f7c-{number}"
    return running(name, fits=False, ownerReferences=[owner], labels=labels)


def test_a_pod_that_keeps_the_rules_is_not_refused_for_what_the_system_wrote() -> None:
    assert violations_of(running("train", fits=True), ARGS.context) == []


def test_workloads_are_named_by_their_controllers_with_the_rule() -> None:
    pods = [running("alone", fits=False), of_a_deployment(1), of_a_deployment(2)]
    found = workloads_of(pods, ARGS.context)
    assert [(each.kind, each.namespace, each.name, each.pods) for each in found] == [
        ("Pod", "team-a", "alone", 1),
        ("Deployment", "team-a", "web", 2),
    ]
    assert all(each.why.startswith("GPU") for each in found)


def test_only_guardrails_that_are_enforced_refuse() -> None:
    assert is_refusing(ARGS)
    for mode in ("warn", "audit"):
        assert not is_refusing(guarded(cluster(guardrails={"mode": mode})))


def test_a_quota_is_compared_with_what_the_pods_of_its_namespace_request() -> None:
    resources = {"nvidia.com/gpu": 16, "nvidia.com/gpumem": 100}
    quotas = guarded(
        cluster(guardrails={"mode": "warn", "quotas": [
            {"namespace": "team-a", "resources": resources}
        ]})
    ).guardrails.quotas  # fmt: skip
    ended = {**running("ended", fits=True), "status": {"phase": "Succeeded"}}
    other = running("other", fits=True, namespace="team-b")
    used = requested([running("a", fits=True), running("b", fits=True), ended, other], {"team-a"})
    assert [(use.resource, use.limit, use.used) for use in quota_uses(quotas, used)] == [
        ("nvidia.com/gpu", 16, 2),
        ("nvidia.com/gpumem", 100, None),
    ]
    assert {use.used for use in quota_uses(quotas, None)} == {None}
