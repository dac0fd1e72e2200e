"""The generated policies contain each rule with its CEL variables and cluster facts."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from gpu_rules.admission import Enforcement, manifests, ordinary
from gpu_rules.admission.parameters import data
from gpu_rules.rules import (
    RULES,
    TWINS,
    Context,
    NodeTaint,
    PluginFacts,
    PoolFacts,
    Severity,
    Sharing,
)
from gpu_rules.rules.signs import PLACED
from gpu_rules.rules.twin import NoTwin, Twin, pods
from tests.policies.admission.cluster import EVERYTHING, WARN


def text(context: Context, how: Enforcement = WARN) -> str:
    return json.dumps(manifests(context, how))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_held_at_admission_or_says_why_not(rule: str) -> None:
    twin = TWINS[rule]
    if isinstance(twin, NoTwin):
        assert twin.reason.endswith(".")
        assert f"variables.{rule}" not in text(EVERYTHING)
    else:
        assert f"{rule} {RULES[rule].title}: " in text(EVERYTHING)


def test_most_rules_about_objects_are_held_at_admission() -> None:
    assert sum(isinstance(TWINS[rule], Twin) for rule in RULES) >= 33


def test_rules_that_lack_what_they_need_are_left_out() -> None:
    assert "variables.GPU007" not in text(Context())
    assert "variables.GPU016" in text(Context())


def test_each_rule_about_pods_has_its_signs() -> None:
    pods = [
        manifest
        for manifest in manifests(EVERYTHING, WARN)
        if "-pods-" in manifest["metadata"]["name"]
    ]
    for policy in pods[::2]:
        names = [
            match_condition["name"] for match_condition in policy["spec"].get("matchConditions", [])
        ]
        assert names == ["may-break-a-rule"], policy["metadata"]["name"]


def test_what_annotations_lift_is_noted_in_the_audit_log() -> None:
    for policy in manifests(EVERYTHING, WARN):
        if "variables" in policy.get("spec", {}):
            (noted,) = policy["spec"]["auditAnnotations"]
            assert noted == {"key": "exempted", "valueExpression": 'variables.holding.join("; ")'}


def test_a_rule_without_signs_is_always_judged() -> None:
    assert ordinary.condition([pods("[]", signs=PLACED)])
    assert ordinary.condition([pods("[]", signs=PLACED), pods("[]")]) == ""


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        (Context(), ("nvidia.com/gpu", 16)),
        (Context(platform="gpu-manager"), ("", 16)),
        (Context(platform="dra"), ("", 16)),
        (Context(plugin=PluginFacts(sharing=Sharing.MPS)), ("", 16)),
        (
            Context(plugin=PluginFacts(), pools=(PoolFacts("a", 8), PoolFacts("b", 2))),
            ("nvidia.com/gpu", 2),
        ),
        (Context(max_gpus_per_pod=3, pools=(PoolFacts("a", 8),)), ("nvidia.com/gpu", 3)),
        (Context(max_gpus_per_container=4, max_gpus_per_pod=6), ("nvidia.com/gpu", 4)),
    ],
)
def test_pods_need_no_second_look_only_where_gpus_are_whole(
    context: Context, wanted: tuple[str, int]
) -> None:
    parameters = data(context)
    numbers = parameters["ordinaryGpus"].split(",")
    assert (parameters["ordinaryGpu"], len(numbers)) == wanted
    assert numbers == [str(number) for number in range(1, wanted[1] + 1)]


def test_a_rule_that_is_off_is_left_out_and_a_lowered_one_only_warns() -> None:
    severities = {"GPU016": Severity.OFF, "GPU017": Severity.ADVISORY}
    made = manifests(dataclasses.replace(EVERYTHING, severities=severities), WARN)
    policies = {
        policy["metadata"]["name"]: str(policy) for policy in made if "variables" in str(policy)
    }
    assert not any("variables.GPU016" in policy for policy in policies.values())
    assert "variables.GPU017" in policies["gpu-rules-pods-advisory"]
    assert "variables.GPU017" not in policies["gpu-rules-pods-mandatory"]


def test_every_variable_is_defined_before_it_is_used_and_used() -> None:
    for policy in manifests(EVERYTHING, WARN):
        if "variables" not in policy.get("spec", {}):
            continue
        variables = policy["spec"]["variables"]
        defined: list[str] = []
        for variable in variables:
            later = {variable["name"] for variable in variables} - set(defined)
            used = {name for name in later if f"variables.{name}" in _words(variable)}
            assert not used, (variable["name"], used)
            defined.append(variable["name"])
        everything = str(policy["spec"])
        assert all(f"variables.{name}" in everything for name in defined)


def _words(variable: dict[str, str]) -> set[str]:
    cleaned = "".join(c if c.isalnum() or c == "." else " " for c in variable["expression"])
    return {".".join(word.split(".")[:2]) for word in cleaned.split()}


def test_a_policy_holds_the_facts_that_it_reads_and_needs_no_other_object() -> None:
    made = manifests(EVERYTHING, WARN)
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert {each["kind"] for each in made} == kinds
    assert not {key for each in made for key in each["spec"]} & {"paramKind", "paramRef"}
    for text in map(str, made):
        assert not re.search(r"\bparams\b", text)
    facts = {
        each["metadata"]["name"]: each["spec"]["variables"][0]["expression"]
        for each in made
        if "variables" in each["spec"] and each["spec"]["variables"][0]["name"] == "facts"
    }
    assert '"a100.gpu": "16"' in facts["gpu-rules-pods-mandatory"]
    assert "gpuNodes" not in facts["gpu-rules-limitranges-mandatory"]


def test_facts_that_no_expression_can_hold_are_refused_with_what_to_do() -> None:
    names = frozenset(f"gpu-{number}.rack.site.example.com" for number in range(5000))
    pool = PoolFacts("a100", 8, (NodeTaint("nvidia.com/gpu"),), {}, nodes=5000, node_names=names)
    with pytest.raises(ValueError, match="wanted: at most 90000; cure: use fewer pools"):
        manifests(Context(pools=(pool,)), WARN)


def test_the_facts_say_what_is_known_of_a_pool() -> None:
    taints = (NodeTaint("nvidia.com/gpu", "present"), NodeTaint("soft", "", "PreferNoSchedule"))
    pool = PoolFacts("a100", 8, taints, {"b": "2", "a": "1"}, nodes=3, gpu_memory_mib=8200)
    parameters = data(Context(pools=(pool, PoolFacts("cpu", 0))))
    assert {key: value for key, value in parameters.items() if key.startswith("a100.")} == {
        "a100.labels": "a=1,b=2",
        "a100.taints": "nvidia.com/gpu=present:NoSchedule",
        "a100.gpu": "8",
        "a100.gpu.all": "24",
        "a100.core": "800",
        "a100.core.all": "2400",
        "a100.blocks": "32",
    }
    assert parameters["pools"] == "a100"
    assert "platform" not in parameters
