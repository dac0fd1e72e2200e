"""The rules accept and reject the same resources as a real API server.

The API server checks each resource by a server-side dry run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gpu_rules.rules import Context, evaluate
from lab.benchmarks.api_server import running
from tests.policies.rules.generate import GPU, KINDS, manifests, resources, wrapped
from tests.proofs.rules import results
from tests.proofs.rules.sample import FULL, SEED

ENFORCED = ("GPU001", "GPU002", "GPU003", "GPU008", "GPU009", "GPU010", "GPU027")
"""The rules that the API server itself enforces in pods and pod templates."""
CASES, FEW = (10_000, 100) if FULL else (1_000, 10)
"""Number of manifests, and of those that must break and follow each rule."""
PLURALS = {kind: f"{kind.lower()}s" for kind in KINDS}


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    """Run an API server with etcd and without controllers, and yield a client for it."""
    with running("rules") as server:
        yield server.client


def answer_of(answer: httpx.Response) -> str:
    """Return the API server's message if it rejects a request, otherwise ""."""
    assert answer.status_code in (200, 201, 400, 422), answer.text
    return "" if answer.status_code < 300 else str(answer.json()["message"])


def refused(client: httpx.Client, manifest: dict[str, Any]) -> str:
    group = manifest["apiVersion"]
    root = "/api/v1" if group == "v1" else f"/apis/{group}"
    plural = PLURALS.get(manifest["kind"], f"{manifest['kind'].lower()}s")
    url = f"{root}/namespaces/default/{plural}?dryRun=All&fieldValidation=Ignore"
    return answer_of(client.post(url, json=manifest))


def broken(manifest: dict[str, Any]) -> list[str]:
    return [v.rule.id for v in evaluate(manifest, Context()) if v.rule.id in ENFORCED]


def compare(api: httpx.Client, examples: int, number: int) -> dict[str, Any]:
    """Check generated manifests by the rules and by the API server.

    Each difference is a failure.

    Args:
        api: Client of the API server.
        examples: Number of manifests; a few less, because Hypothesis repeats none.
        number: Seed of the generator.
    """
    kinds: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    taken = 0

    @seed(number)
    @given(manifests())
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    def agree(manifest: dict[str, Any]) -> None:
        nonlocal taken
        said, result = refused(api, manifest), broken(manifest)
        assert bool(result) == bool(said), f"rules: {result}; API server: {said or 'taken'}"
        kinds[manifest["kind"]] += 1
        rejected.update(set(result))
        taken += not said

    agree()
    cases = kinds.total()
    return {
        "cases": cases,
        "agree": cases,
        "taken": taken,
        "kinds": dict(kinds),
        "rules": {rule: {"rejected": rejected[rule], "accepted": taken} for rule in ENFORCED},
    }


def test_the_rules_agree_with_the_api_server(api: httpx.Client) -> None:
    result = compare(api, 300, 0)
    assert 50 <= result["taken"] <= result["cases"] - 50, f"too one-sided: {result}"


@pytest.mark.full
def test_thousands_of_manifests_agree(api: httpx.Client) -> None:
    """Hypothesis repeats no example, so one run may end with fewer cases; then more runs follow."""
    number = 1_000 * SEED
    result: dict[str, Any] = compare(api, CASES, number)
    while result["cases"] < CASES:
        number += 1
        more = compare(api, CASES - result["cases"] + 100, number)
        result = {
            "cases": result["cases"] + more["cases"],
            "agree": result["agree"] + more["agree"],
            "taken": result["taken"] + more["taken"],
            "kinds": dict(Counter(result["kinds"]) + Counter(more["kinds"])),
            "rules": {
                rule: dict(Counter(result["rules"][rule]) + Counter(more["rules"][rule]))
                for rule in ENFORCED
            },
        }
    result["rules"]["GPU011"] = ephemeral(api, 3 * FEW)
    results.store("api-server", result)
    for rule, counts in result["rules"].items():
        assert min(counts.values()) >= FEW, f"{rule}: too few to show anything: {counts}"


def ephemeral(api: httpx.Client, examples: int) -> dict[str, int]:
    """Rule GPU011 also checks requests that add ephemeral containers to a running pod."""
    base = wrapped("Pod", {"containers": [{"name": "a", "image": "a"}]})
    created = api.post("/api/v1/namespaces/default/pods", json=base)
    assert created.status_code in (201, 409), created.text
    url = "/api/v1/namespaces/default/pods/a/ephemeralcontainers?dryRun=All"
    counts = {"rejected": 0, "accepted": 0}

    @given(resources() | st.just({}), st.integers(0, 10**6))
    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    def agree(asked: dict[str, Any], number: int) -> None:
        # The API server also rejects an empty list of resources. The rule ignores it, because such
        # a list requests nothing.
        listed = {part: dict.fromkeys(names, 1) for part, names in asked.items()}
        given = {part: names for part, names in listed.items() if names}
        env = [{"name": "N", "value": str(number)}]
        container = {"name": "debug", "image": "a", "resources": given, "env": env}
        patch = {"spec": {"ephemeralContainers": [container]}}
        kind = "application/strategic-merge-patch+json"
        said = answer_of(api.patch(url, json=patch, headers={"Content-Type": kind}))
        pod = wrapped("Pod", {**base["spec"], **patch["spec"]})
        rules = [v for v in evaluate(pod, Context()) if v.rule.id == "GPU011"]
        assert bool(rules) == bool(said), f"{rules}; API server: {said or 'taken'}"
        counts["rejected" if said else "accepted"] += 1

    try:
        agree()
    finally:
        api.delete("/api/v1/namespaces/default/pods/a?gracePeriodSeconds=0")
    return counts


def test_ephemeral_containers_get_no_devices(api: httpx.Client) -> None:
    counts = ephemeral(api, 60)
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize(
    ("name", "taken"),
    [("alpha.kubernetes.io/nvidia-gpu", True), ("nvidia.com/gpus", True), ("gpu", False)],
)
def test_a_wrong_name_is_not_always_refused(api: httpx.Client, name: str, taken: bool) -> None:
    container = {"name": "a", "image": "a", "resources": {"limits": {name: 1}}}
    manifest = wrapped("Pod", {"containers": [container]})
    assert (refused(api, manifest) == "") == taken
    assert "GPU014" in [v.rule.id for v in evaluate(manifest, Context())]


def claimed(container: Any = None, **spec: Any) -> Any:
    """Return a pod with one ResourceClaim; `fields` change the pod."""
    uses = {"name": "a", "image": "a", "resources": {"claims": [{"name": "g"}]}}
    claims = [{"name": "g", "resourceClaimTemplateName": "t"}]
    given = {"resourceClaims": claims, "containers": [uses | (container or {})], **spec}
    return wrapped("Pod", given)


def using(*claims: Any) -> Any:
    return claimed({"resources": {"claims": list(claims)}})


def asking(api: str = "resource.k8s.io/v1", **request: Any) -> Any:
    """Return a ResourceClaim with one request."""
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    return {"apiVersion": api, "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": spec}


def exactly(**fields: Any) -> Any:
    return asking(exactly={"deviceClassName": "gpu.nvidia.com", **fields})


def twice(**request: Any) -> Any:
    made = exactly()
    made["spec"]["devices"]["requests"] *= 2
    return made


TEMPLATE, CLAIM = {"resourceClaimTemplateName": "t"}, {"resourceClaimName": "c"}
CLAIMS: dict[str, tuple[Any, str]] = {
    "a claim": (claimed(), ""),
    "a claim in a template": (wrapped("Deployment", claimed()["spec"]), ""),
    "no claim is declared": (claimed(resourceClaims=[]), "GPU074"),
    "another claim is declared": (using({"name": "h"}), "GPU074"),
    "not declared, in a template": (
        wrapped("StatefulSet", claimed(resourceClaims=[])["spec"]),
        "GPU074",
    ),
    "declared twice": (claimed(resourceClaims=[{"name": "g", **CLAIM}] * 2), "GPU074"),
    "without a name": (claimed(resourceClaims=[CLAIM]), "GPU074"),
    "of nothing": (claimed(resourceClaims=[{"name": "g"}]), "GPU074"),
    "of a claim and a template": (
        claimed(resourceClaims=[{"name": "g", **CLAIM, **TEMPLATE}]),
        "GPU074",
    ),
    "used twice": (using({"name": "g"}, {"name": "g"}), "GPU074"),
    "used whole, after a part": (using({"name": "g", "request": "a"}, {"name": "g"}), "GPU074"),
    "used in part, after the whole": (
        using({"name": "g"}, {"name": "g", "request": "a"}),
        "GPU074",
    ),
    "two parts": (using({"name": "g", "request": "a"}, {"name": "g", "request": "b"}), ""),
    "one part twice": (using(*[{"name": "g", "request": "a"}] * 2), "GPU074"),
    "of the pod as a whole": (claimed(resources={"claims": [{"name": "g"}]}), "GPU074"),
    "resized cpu": (
        claimed({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
        "",
    ),
    "resized GPUs": (
        claimed({"resizePolicy": [{"resourceName": GPU, "restartPolicy": "NotRequired"}]}),
        "GPU075",
    ),
    "resized twice": (
        claimed({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2}),
        "GPU075",
    ),
    "one device": (exactly(), ""),
    "two devices": (exactly(count=2), ""),
    "no devices means one": (exactly(count=0), ""),
    "less than none": (exactly(count=-1), "GPU076"),
    "all devices": (exactly(allocationMode="All"), ""),
    "all and a number": (exactly(allocationMode="All", count=2), "GPU076"),
    "another mode": (exactly(allocationMode="Some"), "GPU076"),
    "no class": (asking(exactly={"count": 1}), "GPU076"),
    "no way": (asking(), "GPU076"),
    "two ways": (
        asking(
            exactly={"deviceClassName": "a"},
            firstAvailable=[{"name": "b", "deviceClassName": "a"}],
        ),
        "GPU076",
    ),
    "an alternative": (asking(firstAvailable=[{"name": "b", "deviceClassName": "a"}]), ""),
    "an alternative less than none": (
        asking(firstAvailable=[{"name": "b", "deviceClassName": "a", "count": -1}]),
        "GPU076",
    ),
    "two requests of one name": (twice(), "GPU076"),
}
OF_CLAIMS = ("GPU074", "GPU075", "GPU076")


@pytest.mark.parametrize("name", CLAIMS)
def test_what_the_api_server_refuses_of_claims_the_rules_refuse(
    api: httpx.Client, name: str
) -> None:
    manifest, rule = CLAIMS[name]
    said = refused(api, manifest)
    found = {v.rule.id for v in evaluate(manifest, Context()) if v.rule.id in OF_CLAIMS}
    assert (bool(said), found) == (bool(rule), {rule} - {""}), said


def limited(client: httpx.Client, item: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the resources that a LimitRange gives to a pod without any requests."""
    for url, body in (
        ("", {"kind": "Namespace", "metadata": {"name": name}}),
        (f"/{name}/serviceaccounts", {"kind": "ServiceAccount", "metadata": {"name": "default"}}),
        (f"/{name}/limitranges", limit_range(item)),
    ):
        done = client.post(f"/api/v1/namespaces{url}", json={"apiVersion": "v1", **body})
        assert done.status_code in (201, 409), done.text
    pod = wrapped("Pod", {"containers": [{"name": "a", "image": "a"}]})
    done = client.post(f"/api/v1/namespaces/{name}/pods?dryRun=All", json=pod)
    if done.status_code == 403:
        return {"refused": done.json()["message"]}
    assert done.status_code == 201, done.text
    return dict(done.json()["spec"]["containers"][0]["resources"])


def limit_range(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": [item]},
    }


@pytest.mark.parametrize(
    ("item", "harm"),
    [
        ({"type": "Container", "max": {GPU: 8}}, True),
        ({"type": "Container", "default": {GPU: 1}}, True),
        ({"type": "Container", "max": {GPU: 8}, "default": {GPU: "0"}}, False),
        ({"type": "Pod", "max": {GPU: 8}}, True),
        ({"type": "Container", "max": {"memory": "1Gi"}}, False),
    ],
)
def test_a_limit_range_hands_out_gpus_where_the_rule_says_so(
    api: httpx.Client, item: dict[str, Any], harm: bool, request: pytest.FixtureRequest
) -> None:
    name = f"limits-{request.node.callspec.indices['item']}"
    got = limited(api, item, name)
    handed = got.get("limits", {}).get(GPU, "0") != "0"
    assert (handed or "refused" in got) == harm, got
    rules = [v.rule.id for v in evaluate(limit_range(item), Context())]
    assert rules == (["GPU012"] if harm else [])
