"""Attack: a tenant's GPU amounts or claims bypass GPU limits or break the policies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_cluster.guardrails.component import quota
from gpu_cluster.settings.guardrails import Quota
from gpu_rules.admission import Enforcement
from gpu_rules.rules import Context, Severity, evaluate
from lab.benchmarks.api_server import await_true
from tests.policies.admission.cluster import EVERYTHING, GPU, Answer, apply, create, delete, install
from tests.policies.check.running import check

Json = dict[str, Any]
SPACE, BY_CLAIMS, CLASS = "limited", "claims", "gpu.nvidia.com"
CAP = 4
CONTEXT = Context(
    pools=EVERYTHING.pools[:1],
    platform="device-plugin",
    max_gpus_per_container=CAP,
    max_gpus_per_pod=CAP,
)
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})


@pytest.fixture(scope="module")
def limited(api: httpx.Client) -> httpx.Client:
    """Create a namespace whose admission policies deny violations, and a DeviceClass."""
    install(api, SPACE, CONTEXT, DENY)
    install(api, BY_CLAIMS, replace(CONTEXT, platform="dra"), DENY)
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}}
    apply(api, {**made, "spec": {"selectors": [{"cel": {"expression": "true"}}]}})
    return api


def pod(limits: Json, **spec: Any) -> Json:
    """Return a pod that violates no rule, except possibly by its GPU limits."""
    resources = {
        "limits": {"memory": "1Gi", **limits},
        "requests": {"cpu": "1", "memory": "1Gi", **limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": SPACE},
        "spec": {
            "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "a", "image": "a:1", "resources": resources}],
            **spec,
        },
    }


def claim(count: int, name: str = "devices") -> Json:
    exactly = {"deviceClassName": CLASS, "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
    }


def template(count: int) -> Json:
    made = claim(count)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def claiming() -> Json:
    """Return a pod that requests its GPUs by a ResourceClaim, as in the documentation of DRA."""
    made = pod({}, resourceClaims=[{"name": "gpus", "resourceClaimName": "devices"}])
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    return made


def refused(said: Answer, rule: str) -> bool:
    return said.status == 403 and rule in said.rules


def test_a_pod_past_the_cap_is_refused_at_admission(limited: httpx.Client) -> None:
    assert create(limited, pod({GPU: CAP})).taken
    assert refused(create(limited, pod({GPU: CAP + 1})), "GPU028")


@pytest.mark.parametrize("made", [claim, template], ids=["claim", "template"])
def test_a_claim_past_the_cap_is_refused_at_admission(limited: httpx.Client, made: Any) -> None:
    assert create(limited, made(CAP)).taken
    assert refused(create(limited, made(CAP + 1)), "GPU065")


def test_a_quota_on_a_class_counts_the_devices_of_claims(limited: httpx.Client) -> None:
    name = f"{CLASS}.deviceclass.resource.k8s.io/devices"
    declared = quota(Quota(namespace=SPACE, resources={name: 5}))
    apply(limited, declared)
    url = f"/api/v1/namespaces/{SPACE}/resourcequotas/{declared['metadata']['name']}"
    try:
        await_true(
            "quota counted", lambda: name in limited.get(url).json()["status"].get("used", ())
        )
        assert create(limited, claim(3, "first"), dry=False).taken
        await_true("counted", lambda: limited.get(url).json()["status"]["used"][name] == "3")
        said = create(limited, claim(3, "second"))
        assert said.status == 403
        assert "exceeded quota" in said.text
    finally:
        delete(limited, claim(3, "first"))
        delete(limited, declared)


@pytest.mark.parametrize("amount", ["1e309", "1e400", "1e1000", "9" * 400])
def test_an_amount_beyond_any_float_is_judged_like_any_other(
    limited: httpx.Client, amount: str
) -> None:
    found = {violation.rule.id for violation in evaluate(pod({GPU: amount}), CONTEXT)}
    assert "GPU028" in found
    said = create(limited, pod({GPU: amount}))
    assert not said.taken
    assert said.status < 500


@pytest.mark.parametrize("space", [SPACE, BY_CLAIMS])
def test_a_pod_that_claims_its_gpus_passes_everywhere(
    limited: httpx.Client, tmp_path: Path, space: str
) -> None:
    made = claiming()
    made["metadata"]["namespace"] = space
    platform = "dra" if space == BY_CLAIMS else CONTEXT.platform
    judged = evaluate(made, replace(CONTEXT, platform=platform))
    assert [violation.rule.id for violation in judged] == []
    said = create(limited, made)
    assert said.taken, said.text
    assert not said.rules
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(made))
    done = check(str(file), "--stack", "dev")
    assert "GPU032" not in done.output
