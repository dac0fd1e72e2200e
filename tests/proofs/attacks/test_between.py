"""Attack: an object that counts neither as one with GPUs nor as one without, for no rule.

Faults are planted into generated objects (`between`). None may pass, and each object without its
fault is admitted. Cases of all kinds are tried by default; `FULL=1` tries all cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_rules.admission import Enforcement
from gpu_rules.rules import RULES, Context, Severity, evaluate
from tests.policies.admission.cluster import EVERYTHING, apply, create, delete, edit, install
from tests.proofs.attacks.between import (
    CAP,
    CAPPED,
    FAULTS,
    KINDS,
    LISTED,
    SPACE,
    UNNAMED,
    Case,
    cases,
)
from tests.proofs.rules.sample import FULL, SEED

Json = dict[str, Any]
_UNCAPPED = Context(pools=EVERYTHING.pools[:1], other_claims=frozenset({LISTED}))
_BY_SELECTOR = tuple(replace(pool, node_names=frozenset()) for pool in _UNCAPPED.pools)
CONTEXTS = {
    SPACE: _UNCAPPED,
    CAPPED: replace(_UNCAPPED, max_gpus_per_pod=CAP),
    UNNAMED: replace(_UNCAPPED, pools=_BY_SELECTOR),
}
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
JUDGED, ADMITTED = (30_000, 3_000) if FULL else (2_000, 300)
Record = Callable[[str, object], None]


def broken(manifest: Json) -> set[str]:
    """Return the mandatory rules that a manifest breaks."""
    violations = evaluate(manifest, CONTEXTS[manifest["metadata"]["namespace"]])
    return {one.rule.id for one in violations if one.severity is Severity.MANDATORY}


@pytest.mark.promise(
    "What a rule forbids to pods with GPUs or to pods without is forbidden to each pod that may "
    "be either, whatever names its claims and resources have."
)
def test_no_fault_passes_the_rules_between_two_questions(record_property: Record) -> None:
    free, refused, kinds = [], [], Counter[str]()
    for case in cases(SEED, JUDGED):
        kinds[case.what] += 1
        if rules := broken(case.good):
            refused.append((case.what, rules, case.good))
        if not case.rules & broken(case.bad):
            free.append((case.what, case.bad))
    record_property("objects judged", JUDGED)
    record_property("objects free", len(free))
    assert refused[:3] == []
    assert free[:3] == []
    for kind in KINDS:
        assert any(name.startswith(f"{kind}, ") for name in kinds), kind
    for name in FAULTS:
        assert any(f": {name} by " in what for what in kinds), name
    assert set().union(*(case.rules for case in cases(SEED, 300))) <= RULES.keys()


@pytest.fixture(scope="module")
def guarded(api: httpx.Client) -> httpx.Client:
    """Create a namespace whose admission policies deny violations, and RuntimeClasses."""
    for space, context in CONTEXTS.items():
        install(api, space, context, DENY)
    for name in ("nvidia", "nvidia-cdi", "nvidia-legacy", "kata"):
        made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
        apply(api, {**made, "metadata": {"name": name}})
    return api


def _plant(live: Json, case: Case) -> None:
    """Add to a running pod what the fault adds; nobody can take tolerations away."""
    for key in ("tolerations", "ephemeralContainers"):
        added = case.bad["spec"].get(key) or []
        if added != case.good["spec"].get(key):
            live["spec"][key] = [*live["spec"].get(key, []), *added]


def tried(api: httpx.Client, case: Case) -> tuple[str, str]:
    """Return what was wrong with the answers to a case, if anything, and the answer's text."""
    with_pod = case.how != "create"
    said = create(api, case.good, dry=not with_pod)
    if not said.taken:
        return "a good object was refused", said.text
    if not with_pod:
        said = create(api, case.bad)
    else:
        try:
            subresource = "/ephemeralcontainers" if case.how == "ephemeral" else ""
            said = edit(api, case.good, lambda live: _plant(live, case), subresource=subresource)
        finally:
            delete(api, case.good)
    if said.taken:
        return "a fault passed", said.text
    return ("", "") if case.rules & said.rules else ("refused for another reason", said.text)


@pytest.mark.full
def test_no_fault_passes_an_api_server_between_two_questions(
    guarded: httpx.Client, record_property: Record
) -> None:
    wrong = []
    for case in cases(SEED, ADMITTED):
        fault, text = tried(guarded, case)
        if fault:
            wrong.append((fault, case.what, text, case.bad))
    record_property("objects admitted", ADMITTED)
    record_property("objects free", sum(fault == "a fault passed" for fault, *_ in wrong))
    assert wrong[:5] == []
