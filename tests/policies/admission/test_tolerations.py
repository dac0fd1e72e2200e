"""The policies compare numbers in taints as the rules do, where the API server accepts that.

Source: feature gate TaintTolerationComparisonOperators, pkg/features/kube_features.go of kubernetes
v1.36.3, alpha from 1.35 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest

from gpu_cluster_lab.toolchain.pins import KUBERNETES
from gpu_cluster_lab.toolchain.versions import numbers
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.rules import Context, PoolFacts, evaluate
from lab.benchmarks.api_server import running
from tests.policies.admission.cluster import GOOD, WARN, container, create, install, pod

SPACE = "numbers"
RULES = {"GPU004", "GPU032"}
MOST = str(2**63 - 1)
POOL = PoolFacts("a100", 8, (NodeTaint("size", "5"),), nodes=1)
CONTEXT = Context(pools=(POOL,), platform="device-plugin")
GATE = "TaintTolerationComparisonOperators"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numbers(KUBERNETES) < (1, 35), reason="Kubernetes 1.35 has the gate first"),
]


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with running("numbers", gates=f"{GATE}=true") as server:
        install(server.client, SPACE, CONTEXT, WARN)
        yield server.client


def test_numbers_are_compared_as_in_the_rules(api: httpx.Client) -> None:
    differing, seen = [], set()
    bounds = ("4", "5", "6", "0", MOST)
    for operator, bound, key in product(("Gt", "Lt", "Equal"), bounds, ("size", "other")):
        toleration = {"key": key, "operator": operator, "value": bound}
        for one in (GOOD, container({})):
            manifest: dict[str, Any] = pod(SPACE, one, tolerations=[toleration])
            said = create(api, manifest)
            assert said.taken, said.text
            found = {violation.rule.id for violation in evaluate(manifest, CONTEXT)} & RULES
            seen |= {frozenset(found)}
            if found != said.rules & RULES:
                differing.append((toleration, found, said.rules & RULES))
    assert differing == []
    assert seen == {frozenset(), frozenset({"GPU004"}), frozenset({"GPU032"})}
