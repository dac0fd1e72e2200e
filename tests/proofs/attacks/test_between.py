"""Attack: an object that counts neither as one with GPUs nor as one without, for no rule."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from policies.admission import Enforcement
from policies.rules import Context, Severity, evaluate
from tests.policies.admission.cluster import EVERYTHING, GPU, apply, create, install

Json = dict[str, Any]
SPACE = "between"
CONTEXT = Context(pools=EVERYTHING.pools[:1], platform="dra")
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
UNCLEAR: dict[str, Json] = {
    "nic": {"resourceClaims": [{"name": "it", "resourceClaimName": "nic"}]},
    "template": {"resourceClaims": [{"name": "it", "resourceClaimTemplateName": "rdma-0"}]},
    "network": {"asks": "nvidia.com/hostdev"},
    "zero": {"asks": GPU, "amount": "0"},
}
"""Requests of pods that may have no GPU, by a name of the case."""
FAULTS: dict[str, tuple[Json, Json, str]] = {
    "tolerations": ({"tolerations": [{"operator": "Exists"}]}, {}, "GPU032"),
    "runtime class": ({"runtimeClassName": "nvidia"}, {}, "GPU063"),
    "node": ({"nodeName": "gpu-1"}, {}, "GPU064"),
}
FORBIDDEN_TO_BOTH: dict[str, tuple[Json, Json, str]] = {
    "privileged": ({}, {"securityContext": {"privileged": True}}, "GPU022"),
    "capability": ({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "GPU022"),
}


@pytest.fixture(scope="module")
def guarded(api: httpx.Client) -> httpx.Client:
    """Create a namespace whose admission policies deny violations, and a RuntimeClass."""
    nvidia = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
    apply(api, {**nvidia, "metadata": {"name": "nvidia"}})
    install(api, SPACE, CONTEXT, DENY)
    return api


def pod(request: Json, spec: Json, container: Json) -> Json:
    amounts = {request["asks"]: request.get("amount", "1")} if "asks" in request else {}
    resources = {
        "limits": {"memory": "1Gi", **amounts},
        "requests": {"cpu": "1", "memory": "1Gi", **amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "evil", "namespace": SPACE},
        "spec": {
            "containers": [{"name": "a", "image": "evil:1", "resources": resources, **container}],
            **{key: value for key, value in request.items() if key == "resourceClaims"},
            **spec,
        },
    }


CASES = [
    (request, fault)
    for request in UNCLEAR
    for fault in (*FAULTS, *(FORBIDDEN_TO_BOTH if request != "zero" else ()))
]


@pytest.mark.parametrize(("requested", "fault"), CASES)
def test_what_may_be_no_gpu_excuses_from_no_rule(
    guarded: httpx.Client, requested: str, fault: str
) -> None:
    spec, container, rule = {**FAULTS, **FORBIDDEN_TO_BOTH}[fault]
    good, bad = (pod(UNCLEAR[requested], *parts) for parts in (({}, {}), (spec, container)))
    assert [violation.rule.id for violation in evaluate(good, CONTEXT)] == []
    assert create(guarded, good).taken
    assert rule in {violation.rule.id for violation in evaluate(bad, CONTEXT)}
    said = create(guarded, bad)
    assert said.status == 403
    assert rule in said.rules
