"""Attack: a pod with GPUs, or a PersistentVolume, names what is forbidden by another name."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from gpu_rules.admission import Enforcement
from gpu_rules.facts.host_folders import FOLDERS
from gpu_rules.rules import Context, Severity, evaluate
from tests.policies.admission.cluster import EVERYTHING, create, install
from tests.proofs.attacks.aliases import REFUSED_BY_THE_SERVER, aliases, pod

CONTEXT = Context(pools=EVERYTHING.pools[:1])
DENY = Enforcement({Severity.MANDATORY: ["Deny"], Severity.ADVISORY: ["Warn"]})
Record = Callable[[str, object], None]


@pytest.mark.promise(
    "Pods with GPUs and PersistentVolumes reach only folders of nodes that somebody allowed, by "
    "whatever name a forbidden one has."
)
def test_no_alias_of_what_is_forbidden_passes_the_rules(record_property: Record) -> None:
    tried = list(aliases())
    passed = [
        what
        for what, manifest, rule in tried
        if (rule, Severity.MANDATORY)
        not in {(one.rule.id, one.severity) for one in evaluate(manifest, CONTEXT)}
    ]
    record_property("inputs", len(tried))
    assert passed == []
    assert len({what for what, *_ in tried}) == len(tried)
    assert len(tried) >= 120


def test_what_is_allowed_passes_the_rules() -> None:
    for path in FOLDERS:
        given = {"hostPath": {"path": path.replace("*", "a")}}
        manifest = pod("a", given, {"name": "v", "mountPath": "/v"})
        assert [
            one for one in evaluate(manifest, CONTEXT) if one.severity is Severity.MANDATORY
        ] == []


@pytest.mark.slow
def test_no_alias_of_what_is_forbidden_passes_an_api_server(
    api: httpx.Client, record_property: Record
) -> None:
    install(api, "aliases", CONTEXT, DENY)
    wrong, tried = [], list(aliases())
    for what, manifest, rule in tried:
        said = create(api, manifest)
        if said.taken or (said.rules and rule not in said.rules):
            wrong.append((what, said.text))
    record_property("inputs", len(tried))
    assert wrong == []
    for what, (volume, mount) in REFUSED_BY_THE_SERVER.items():
        assert create(api, pod("refused", volume, mount)).status == 422, what
    for path in FOLDERS:
        given = {"hostPath": {"path": path.replace("*", "a")}}
        said = create(api, pod("allowed", given, {"name": "v", "mountPath": "/v"}))
        assert said.taken, said.text
