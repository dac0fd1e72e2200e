"""What the system wrote into an object of a cluster is not judged; its author's part is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.rules import Context, NodeTaint, PoolFacts
from tests.policies.rules.messages import judge

POOL = PoolFacts("a100", 8, (NodeTaint("nvidia.com/gpu"),), nodes=1, node_names=frozenset({"g1"}))
CONTEXT = Context(pools=(POOL,), resource_names=frozenset({"tencent.com/vcuda-core"}))
OBSERVED = replace(CONTEXT, observed=True)


def pod(spec: Any, *, gpus: int = 1, **metadata: Any) -> Any:
    """Return a pod as an API server returns it."""
    container = {"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    stored = {"uid": "1", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}] if gpus else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "a", **stored, **metadata},
        "spec": {"containers": [container], "tolerations": tolerations, **spec},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


def mandatory(manifest: Any, context: Context) -> set[str]:
    """Return the mandatory rules that a manifest breaks."""
    return {v.rule.id for v in judge(manifest, context) if v.severity == "mandatory"}


WRITTEN: dict[str, tuple[Any, set[str]]] = {
    "the node of a pod with GPUs": (pod({"nodeName": "g1"}), {"GPU016"}),
    "the node of a pod without GPUs": (pod({"nodeName": "g1"}, gpus=0), {"GPU064"}),
    "the annotations of gpu-admission": (
        pod({}, annotations={"tencent.com/predicate-time": "1"}),
        {"GPU020"},
    ),
}


@pytest.mark.promise(
    "Objects that were read from a cluster are judged without what schedulers and controllers "
    "wrote into them; in a manifest of a repository, a uid changes nothing."
)
@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_system_wrote_is_judged_in_manifests_only(name: str) -> None:
    manifest, broken = WRITTEN[name]
    before = copy.deepcopy(manifest)
    assert mandatory(manifest, CONTEXT) == broken, "a uid in a manifest is no proof"
    assert mandatory(manifest, OBSERVED) == set()
    assert manifest == before


def test_tolerations_of_node_conditions_are_not_the_authors() -> None:
    taint = NodeTaint("node.kubernetes.io/unreachable", "", "NoExecute")
    context = replace(CONTEXT, pools=(replace(POOL, taints=(taint,)),))
    injected = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    manifest = pod({"tolerations": [{**injected, "tolerationSeconds": 300}]}, gpus=0)
    assert mandatory(manifest, context) == {"GPU032"}
    assert mandatory(manifest, replace(context, observed=True)) == set()


def test_what_the_author_wrote_is_judged_in_a_cluster_too() -> None:
    container = {**pod({})["spec"]["containers"][0], "securityContext": {"privileged": True}}
    manifest = pod({"nodeName": "g1", "containers": [container]})
    assert mandatory(manifest, OBSERVED) == {"GPU022"}


@pytest.mark.parametrize("observed", [False, True])
def test_only_in_a_cluster_an_owner_counts(observed: bool) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "controller": True}
    manifest = pod({"tolerations": [{"operator": "Exists"}]}, gpus=0, ownerReferences=[owner])
    context = replace(CONTEXT, observed=observed)
    assert mandatory(manifest, context) == (set() if observed else {"GPU032"})
