"""Without a stack or pools, opinions are advice; rules speak where their weakness exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpu_rules.reference import context_for, described, violations
from gpu_rules.rules import EXAMPLES, RULES, Context, NodeTaint, PoolFacts, Severity
from gpu_rules.rules.rule import Declared
from tests.policies.rules.cases import gpus, pod, resource
from tests.policies.rules.messages import judge, judge_stack

POOLS = Context(pools=(PoolFacts("a100", 8, (NodeTaint("nvidia.com/gpu"),)),))
TRUST = Context(infrastructure_namespaces=frozenset())
OPINIONS = ("GPU029", "GPU031", "GPU052", "GPU053", "GPU055", "GPU068")


@pytest.mark.promise(
    "Without a stack, pools or infrastructureNamespaces, rules that state an opinion give advice."
)
@pytest.mark.parametrize("id_", OPINIONS)
def test_an_opinion_is_mandatory_where_a_cluster_is_declared(id_: str) -> None:
    rule = RULES[id_]
    assert rule.severity_in(Context()) is Severity.ADVISORY
    assert rule.severity_in(POOLS) is rule.severity_in(TRUST) is Severity.MANDATORY
    off = replace(POOLS, severities={id_: Severity.ADVISORY})
    assert rule.severity_in(off) is Severity.ADVISORY, "the settings decide"


HOST = {"name": "host", "hostPath": {"path": "/opt/data"}}
SOCKET = {"name": "host", "hostPath": {"path": "/run/containerd/containerd.sock"}}


def volume(path: str) -> Any:
    return resource("PersistentVolume", "v1", name="models", spec={"hostPath": {"path": path}})


def with_capability(name: str) -> Any:
    return gpus() | {"securityContext": {"capabilities": {"add": [name]}}}


@pytest.mark.promise(
    "Without a declared cluster, a host path that gives no access to GPUs, host namespaces and "
    "capabilities without devices are advice."
)
@pytest.mark.parametrize(
    ("id_", "manifest", "is_opinion"),
    [
        ("GPU036", pod(gpus(), volumes=[HOST]), True),
        ("GPU036", pod(gpus(), volumes=[SOCKET]), False),
        ("GPU066", volume("/var/lib/models"), True),
        ("GPU066", volume("/run/nvidia/driver"), False),
        ("GPU067", pod(gpus(), hostNetwork=True), True),
        ("GPU022", pod(with_capability("NET_ADMIN")), True),
        ("GPU022", pod(with_capability("CAP_SYS_NICE")), True),
        ("GPU022", pod(with_capability("SYS_ADMIN")), False),
        ("GPU022", pod(with_capability("NEW_ONE")), False),
    ],
)
def test_what_breaks_nothing_is_advice_without_a_declared_cluster(
    id_: str, manifest: Any, is_opinion: bool
) -> None:
    def level(context: Context) -> Severity:
        (severity,) = {v.severity for v in judge(manifest, context) if v.rule.id == id_}
        return severity

    assert level(Context()) is (Severity.ADVISORY if is_opinion else Severity.MANDATORY)
    assert level(POOLS) is level(TRUST) is Severity.MANDATORY
    assert level(Context(severities={id_: Severity.MANDATORY})) is Severity.MANDATORY
    assert RULES[id_].opinions in described(RULES[id_])


@pytest.mark.parametrize("id_", [id_ for id_, rule in RULES.items() if rule.mandatory_if])
def test_the_page_of_a_rule_says_when_it_is_mandatory(id_: str) -> None:
    rule = RULES[id_]
    assert f"Severity: advisory; mandatory if {rule.mandatory_if}." in described(rule)


def test_advice_about_agents_needs_declared_trust() -> None:
    assert RULES["GPU079"].mandatory_if is Declared.TRUST
    assert RULES["GPU079"].severity_in(POOLS) is Severity.ADVISORY


def claim(name: str) -> Any:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    devices = {"devices": {"requests": [request, {**request, "name": "nic"}]}}
    api = "resource.k8s.io/v1"
    return resource("ResourceClaimTemplate", api, name=name, spec={"spec": devices})


@pytest.mark.parametrize(
    ("name", "settings", "speaks"),
    [
        ("2nic-aligned", {}, False),
        ("2nic-aligned", {"infrastructure_namespaces": frozenset({"monitoring"})}, False),
        ("2nic-aligned", {"max_gpus_per_pod": 8}, True),
        ("2nic-aligned", {"max_gpus_per_container": 8}, True),
        ("2nic-aligned", {"other_claims": frozenset({"2nic-aligned"})}, True),
        ("plain", {"other_claims": frozenset({"plain"})}, True),
        ("memory-selector-claim", {"max_gpus_per_pod": 8}, False),
        ("sriov-check-claim", {"max_gpus_per_pod": 8}, False),
    ],
)
def test_the_name_of_a_claim_matters_where_something_counts_by_it(
    name: str, settings: Any, speaks: bool
) -> None:
    broken = {v.rule.id for v in judge(claim(name), Context(**settings))}
    assert ("GPU077" in broken) is speaks


TEAM = resource("Namespace", name="team-a")
WEB = pod({"name": "web", "image": "nginx:1"}, namespace="team-a")
TRAIN = pod(gpus(), namespace="team-a")


@pytest.mark.parametrize(
    ("stack", "speaks"),
    [
        ([TEAM], False),
        ([TEAM, WEB], False),
        ([TEAM, WEB, pod(gpus(), namespace="team-b")], False),
        ([TEAM, pod(gpus())], False),
        ([TEAM, TRAIN], True),
        ([TRAIN, TEAM], True),
    ],
)
def test_only_a_namespace_with_gpu_workloads_needs_a_pod_security_level(
    stack: list[Any], speaks: bool
) -> None:
    broken = [v.subject for v in judge_stack(stack, Context()) if v.rule.id == "GPU060"]
    assert broken == (["Namespace team-a"] if speaks else [])


def test_examples_of_opinions_show_them_where_they_are_mandatory() -> None:
    for id_ in OPINIONS:
        context = context_for(EXAMPLES[id_])
        broken = violations(yaml.safe_load(EXAMPLES[id_].failing), context)
        assert {v.severity for v in broken if v.rule.id == id_} == {Severity.MANDATORY}
