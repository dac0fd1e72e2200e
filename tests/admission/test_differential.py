"""A rule in Python and its twin in CEL, on a real API server, say the same of every manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from policies.rules import TWINS as RULE_TWINS
from policies.rules import evaluate
from policies.rules.twin import NoTwin
from tests.admission.cluster import CONTEXTS, GPU, TWINS, context_name, create, maker
from tests.admission.generate import manifests
from tests.admission.generate_specs import CORE, LIMIT_KEY, MEMORY, SHARED, VARIABLE

CASES = 10_000
RESULTS = Path(__file__).parents[1] / "results"


def compare(api: httpx.Client, manifest: Mapping[str, Any]) -> tuple[bool, set[str], set[str]]:
    """Whether the API server takes a manifest, what Python finds, and what its twins find."""
    said = create(api, manifest, user=maker(manifest))
    assert said.taken or said.status in (400, 422), said.text
    rules = {
        violation.rule.id
        for violation in evaluate(manifest, CONTEXTS[context_name(manifest)])
        if not violation.exemption
    }
    return said.taken, rules & TWINS, set(said.rules)


@dataclass
class Figures:
    """What a run came to: cases that the API server took, those it refused, differences."""

    cases: int = 0
    refused: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    different: list[dict[str, Any]] = field(default_factory=list)

    def add(self, api: httpx.Client, manifest: dict[str, Any]) -> None:
        taken, python, cel = compare(api, manifest)
        if not taken:
            self.refused += 1
            return
        self.cases += 1
        self.rejected.update(python)
        if python != cel:
            answers = {"python": sorted(python), "admission": sorted(cel)}
            self.different.append({**answers, "manifest": manifest})

    @property
    def rules(self) -> dict[str, dict[str, int]]:
        """Accepted and rejected cases of each rule."""
        return {
            rule: {"accepted": self.cases - self.rejected[rule], "rejected": self.rejected[rule]}
            for rule in sorted(TWINS)
        }

    @property
    def few(self) -> dict[str, dict[str, int]]:
        """Those that too few cases broke or kept to show anything."""
        return {rule: counts for rule, counts in self.rules.items() if min(counts.values()) < 100}

    def document(self) -> dict[str, Any]:
        """For the last line of `make test-rules`."""
        reasons = [twin for twin in RULE_TWINS.values() if isinstance(twin, NoTwin)]
        return {
            "at_admission": len(TWINS),
            "by_the_api_server": sum(reason.enforced for reason in reasons),
            "cases": self.cases,
            "agree": self.cases - len(self.different),
            "refused_by_the_api_server": self.refused,
            "rules": self.rules,
            "different": self.different,
        }


def run(api: httpx.Client, figures: Figures, examples: int, number: int) -> None:
    """Adds so many generated cases, another set for each number."""

    @seed(number)
    @given(manifests())
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    def add(manifest: dict[str, Any]) -> None:
        figures.add(api, manifest)

    add()


def workload(kind: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def pod(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(limits: dict[str, Any]) -> dict[str, Any]:
    return {"name": "a", "image": "cuda", "resources": {"limits": limits}}


def annotated(limit: str) -> dict[str, Any]:
    made = pod("vcuda", {"containers": [container({})]})
    made["metadata"]["annotations"] = {LIMIT_KEY: limit}
    return made


def secret(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "plugin"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields}


def owned(kind: str, controller: bool) -> dict[str, Any]:
    made = pod("plugin", {"containers": [container({})], "tolerations": [{"operator": "Exists"}]})
    version = "apps/v1" if kind == "DaemonSet" else "batch/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "a", "uid": "0"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": controller}]
    return made


DIFFERED = {
    "100 exa cores are a multiple of 100": pod(
        "unknown", {"containers": [container({CORE: "100E"})]}
    ),
    "several devices by name count once each": pod(
        "infrastructure",
        {
            "containers": [container({})],
            "initContainers": [container({GPU: "0", MEMORY: "0", SHARED: "08"}) | {"name": "b"}],
        },
    ),
    "overhead counts for the toleration that the API server adds": workload(
        "DaemonSet",
        "infrastructure",
        {"containers": [container({GPU: 0})], "overhead": {GPU: 2, "cpu": "100m"}},
    ),
    "a limit of cores with zeros before it": annotated("0000000050"),
    "a limit of cores of ten digits": annotated("0000000500"),
    "no devices, by a Secret in base64": secret(data={VARIABLE: "bm9uZQ=="}),
    "all devices, by a Secret in base64": secret(data={VARIABLE: "YWxs"}),
    "what is base64 and looks like no devices": secret(data={VARIABLE: "none"}),
    "text over base64": secret(data={VARIABLE: "YWxs"}, stringData={VARIABLE: "none"}),
    "a DaemonSet's pod": owned("DaemonSet", controller=True),
    "a pod that a DaemonSet does not control": owned("DaemonSet", controller=False),
    "a Job's pod": owned("Job", controller=True),
    "a pod that claims devices": pod(
        "plugin",
        {
            "containers": [
                {"name": "a", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
    ),
}
"""Manifests of which a rule and its twin once said different things, or might."""


@pytest.mark.parametrize("name", DIFFERED)
def test_what_once_differed_agrees(api: httpx.Client, name: str) -> None:
    taken, python, cel = compare(api, DIFFERED[name])
    assert taken
    assert python == cel


def test_twins_agree_with_the_rules_in_a_slice(api: httpx.Client) -> None:
    figures = Figures()
    run(api, figures, 300, 0)
    assert figures.different == []
    assert figures.cases >= 200
    silent = [rule for rule, counts in figures.rules.items() if not counts["rejected"]]
    assert len(silent) <= 5, f"never rejected: {silent}"


@pytest.mark.full
def test_twins_agree_with_the_rules_in_ten_thousand_cases(api: httpx.Client) -> None:
    figures = Figures()
    number = 0
    while figures.cases < CASES or (figures.few and figures.cases < 2 * CASES):
        number += 1
        run(api, figures, 1_000, number)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "admission.json").write_text(json.dumps(figures.document(), indent=1) + "\n")
    assert figures.different == []
    assert not figures.few, f"too one-sided to show anything: {figures.few}"
