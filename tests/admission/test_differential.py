"""A rule in Python and its twin in CEL, on a real API server, say the same of every manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from policies.rules import evaluate

from .cluster import CONTEXTS, TWINS, create
from .generate import manifests

RESULTS = Path(__file__).parents[1] / "results"


def compare(api: httpx.Client, manifest: Mapping[str, Any]) -> tuple[bool, set[str], set[str]]:
    """Whether the API server takes a manifest, what Python finds, and what its twins find."""
    said = create(api, manifest)
    assert said.taken or said.status in (400, 422), said.text
    context = CONTEXTS[manifest["metadata"]["namespace"]]
    found = {violation.rule.id for violation in evaluate(manifest, context)}
    return said.taken, found & TWINS, set(said.rules)


def run(api: httpx.Client, cases: int, seed: int | None = None) -> dict[str, Any]:
    """Compares so many cases that the API server takes; fails at the first that differ."""
    rejected: Counter[str] = Counter()
    total = {"taken": 0, "refused": 0}

    @given(manifests())
    @settings(
        max_examples=cases,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    def agree(manifest: dict[str, Any]) -> None:
        taken, python, cel = compare(api, manifest)
        total["taken" if taken else "refused"] += 1
        if taken:
            rejected.update(python)
            assert python == cel

    agree()
    per_rule = {
        rule: {"accepted": total["taken"] - rejected[rule], "rejected": rejected[rule]}
        for rule in sorted(TWINS)
    }
    return {"cases": total["taken"], "refused": total["refused"], "rules": per_rule}


def test_twins_agree_with_the_rules_in_a_slice(api: httpx.Client) -> None:
    figures = run(api, 400)
    assert figures["cases"] >= 300
    silent = [rule for rule, each in figures["rules"].items() if not each["rejected"]]
    assert len(silent) <= 2, f"never rejected: {silent}"


@pytest.mark.full
def test_twins_agree_with_the_rules_in_ten_thousand_cases(api: httpx.Client) -> None:
    figures = run(api, 12_000)
    assert figures["cases"] >= 10_000
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "admission.json").write_text(json.dumps(figures, indent=1) + "\n")
    few = {rule: each for rule, each in figures["rules"].items() if min(each.values()) < 100}
    assert not few, f"too one-sided to show anything: {few}"
