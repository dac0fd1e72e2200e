"""Attack: an object that counts neither as one with GPUs nor as one without, for no rule.

Faults are planted into generated objects (`between`). None may pass, and each object without its
fault is admitted. Cases of all kinds are tried by default; `FULL=1` tries all cases.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_rules import rules
from gpu_rules.admission import Enforcement
from gpu_rules.rules import RULES, Context, Severity, evaluate
from gpu_rules.rules.agents import is_agent, of_daemon_set, only_watches
from gpu_rules.rules.each import each_gpu_container, gpu_containers
from gpu_rules.rules.gpus import belongs_on_gpu_nodes, gpus_of
from gpu_rules.rules.isolation.gpu036_host_paths import on_gpu_nodes
from gpu_rules.rules.pod_claims import gpu_claims
from gpu_rules.rules.pod_request import (
    asks_for_gpus,
    gpu_requests,
    requests_gpu_resources,
    requests_gpus,
)
from tests.policies.admission.cluster import EVERYTHING, apply, create, delete, edit, install
from tests.proofs.attacks.between import (
    CAP,
    CAPPED,
    FAULTS,
    KINDS,
    LISTED,
    SPACE,
    TRUSTING,
    UNNAMED,
    UNTAINTED,
    Case,
    cases,
)
from tests.proofs.rules.sample import FULL, SEED

Json = dict[str, Any]
_UNCAPPED = Context(pools=EVERYTHING.pools[:1], other_claims=frozenset({LISTED}))
_BY_SELECTOR = tuple(replace(pool, node_names=frozenset()) for pool in _UNCAPPED.pools)
_WITHOUT_TAINTS = tuple(replace(pool, taints=()) for pool in _UNCAPPED.pools)
_TRUSTING = replace(_UNCAPPED, infrastructure_namespaces=frozenset({"gpu-system"}))
CONTEXTS = {
    SPACE: _UNCAPPED,
    CAPPED: replace(_UNCAPPED, max_gpus_per_pod=CAP),
    UNNAMED: replace(_UNCAPPED, pools=_BY_SELECTOR),
    TRUSTING: _TRUSTING,
    UNTAINTED: replace(_TRUSTING, pools=_WITHOUT_TAINTS),
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


QUESTIONS = (
    *(gpus_of, belongs_on_gpu_nodes, requests_gpus, requests_gpu_resources, asks_for_gpus),
    *(gpu_requests, gpu_claims, gpu_containers, each_gpu_container, on_gpu_nodes),
    *(is_agent, of_daemon_set, only_watches),
)
"""Functions that tell pods with GPUs, or near them, from others."""
PENDING = "a pod that breaks it gets no node"
WITHOUT_FAULT = {
    **dict.fromkeys(("GPU004", "GPU007", "GPU015", "GPU034"), PENDING),
    "GPU039": "an update that breaks it stops, and no pod gets more",
}
"""Mandatory rules that ask whether a pod has GPUs, and that no object gains from escaping."""


def test_each_rule_that_asks_whether_a_pod_has_gpus_has_a_fault() -> None:
    asking = {
        match[1].upper()
        for module in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}.")
        if (match := re.search(r"\.(gpu\d{3})_", module.name))
        and any(
            value in QUESTIONS
            for value in vars(importlib.import_module(module.name)).values()
            if callable(value)
        )
    }
    mandatory = {
        id_
        for id_ in asking
        if any(
            RULES[id_].severity_in(context) is Severity.MANDATORY for context in CONTEXTS.values()
        )
    }
    planted = set().union(*(fault.rules for fault in FAULTS.values()))
    planted |= set().union(*(case.rules for case in cases(SEED, 300)))
    assert mandatory - planted == WITHOUT_FAULT.keys()


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
