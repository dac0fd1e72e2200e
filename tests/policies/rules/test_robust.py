"""Rules never raise an error for any manifest, and check the values that are known."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_rules import reference
from gpu_rules.rules import EXAMPLES, RULES, UNKNOWN, Context, NodeTaint, PoolFacts, evaluate
from gpu_rules.rules.pod_spec import template_path

KINDS = st.sampled_from(
    ["Pod", "Deployment", "DaemonSet", "CronJob", "LimitRange", "ResourceQuota", "List", "Other"]
)
KEYS = st.sampled_from(
    [
        "spec", "template", "jobTemplate", "metadata", "annotations", "containers", "name", "env",
        "initContainers", "resources", "limits", "requests", "nvidia.com/gpu", "tolerations",
        "tencent.com/vcuda-core", "hard", "type", "max", "items", "restartPolicy", "overhead",
        "nodeSelector", "securityContext", "strategy", "value", "key", "operator",
    ]
)  # fmt: skip
LEAVES = st.sampled_from(
    [None, True, 0, 1, -1.5, "", "1", "x", "Always", "Exists", UNKNOWN, "1e400", 10**400, math.inf]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
CONTEXT = Context(
    pools=(PoolFacts("a", 8, (NodeTaint("nvidia.com/gpu"),)),), platform="device-plugin"
)


@given(KINDS, st.dictionaries(KEYS, TREES, max_size=4))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_manifest_makes_a_rule_raise(kind: str, body: dict[str, Any]) -> None:
    for violation in evaluate({"kind": kind, **body}, CONTEXT):
        assert violation.message.startswith("GPU")


BAD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "annotations": {"note": "x"}, "labels": {"a": "b"}},
    "spec": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "cuda",
                "image": "cuda",
                "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"nvidia.com/gpu": "500m", "cpu": "1"}},
            }
        ],
    },
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a manifest, including mappings and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        place
        for key, item in inner
        for place in ((*path, key), *(_places(item, (*path, key)) if _holds(item) else ()))
    ]


def _holds(value: Any) -> bool:
    return isinstance(value, (dict, list))


def _with(manifest: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = target = copy.deepcopy(manifest)
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return changed


EXPRESSIONS = {
    **BAD["spec"],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                ]
            }
        }
    },
}


VALUES: dict[str, Any] = {
    "list": ["x"],
    "mapping": {"a": "b"},
    "number": 7,
    "beyond a float": "1e400",
    "longest exponent": "1e1000",
    "smallest": "1e-1000",
    "large integer": 10**400,
    "integer that Python writes no more": 10**5000,
    "version of many digits": f"v{'9' * 5000}.1.1",
    "infinite": math.inf,
    "no number": math.nan,
    "bytes": b"nvidia.com/gpu",
}


FEW = ("list", "mapping", "number", "beyond a float", "bytes")
"""Names of the values that `make test` tries; `make test-full` tries the others."""


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=name, marks=() if name in FEW else pytest.mark.slow)
        for name, value in VALUES.items()
    ],
)
@pytest.mark.parametrize("rule_id", RULES)
def test_anything_may_stand_anywhere(rule_id: str, value: Any) -> None:
    shown = EXAMPLES[rule_id]
    for text in (shown.passing, shown.failing):
        manifest = yaml.safe_load(text)
        for path in _places(manifest):
            reference.violations(_with(manifest, path, value), reference.context_for(shown))


@pytest.mark.parametrize("path", [("key",), ("operator",), ("values",), ("values", 0)])
def test_anything_may_stand_in_a_node_affinity(path: tuple[Any, ...]) -> None:
    terms = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0)
    place = ("spec", "affinity", "nodeAffinity", *terms, "matchExpressions", 0, *path)
    for value in (["x"], {"a": "b"}, 7):
        reference.violations(_with({**BAD, "spec": EXPRESSIONS}, place, value), CONTEXT)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in _leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(item, (*path, i))]
    return [path]


@given(st.sets(st.sampled_from(_leaves(BAD)[2:])))
def test_the_rest_is_judged_when_other_values_are_unknown(unknown: set[tuple[Any, ...]]) -> None:
    manifest = BAD
    for path in unknown:
        manifest = _with(manifest, path, UNKNOWN)
    quantity = ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu")
    rules = {violation.rule.id for violation in evaluate(manifest, CONTEXT)} & {"GPU001"}
    assert rules == (set() if quantity in unknown else {"GPU001"})


def test_kinds_with_pods_are_known_by_group() -> None:
    assert template_path("apps/v1", "Deployment") == ("spec", "template")
    assert template_path("example.com/v1", "Deployment") is None
