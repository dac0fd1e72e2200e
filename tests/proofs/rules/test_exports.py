"""Kyverno and Gatekeeper find by the exported rules what the rules in Python find."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.machine.tool import ToolchainError
from gpu_rules.rules import TWINS
from gpu_rules.rules.twin import Twin
from lab.benchmarks.measure import BenchmarkError
from lab.benchmarks.peers import PEERS, tool
from tests.policies.admission.cluster import GPU, container, pod
from tests.policies.admission.exports import (
    agrees,
    by_gator,
    by_kyverno,
    cases,
    review,
    together,
    verified,
)
from tests.proofs.rules import results

pytestmark = pytest.mark.full
ELSEWHERE = {
    "GPU062": "its failing example has an exemption by annotation",
    "GPU072": "its failing example is a Helm release",
}
"""The rules whose failing example is not judged here, with the reason."""
JUDGES = {"gatekeeper": ("gator", by_gator), "kyverno": ("kyverno", by_kyverno)}


def program(name: str) -> Path:
    """Return a program, or skip the test with the reason why there is none."""
    try:
        return tool(name)
    except (BenchmarkError, ToolchainError) as error:
        pytest.skip(f"{name}: {error}")


@pytest.mark.promise(
    "The rules that gpu-rules exports to Kyverno and Gatekeeper judge the examples of all rules "
    "as the checker does."
)
@pytest.mark.parametrize("target", JUDGES)
def test_a_target_judges_all_examples_as_python_does(target: str, tmp_path: Path) -> None:
    name, judge = JUDGES[target]
    binary = program(name)
    # gator gives no namespace to CEL, and only a namespace grants exemptions by annotation.
    examples = [case for case in cases() if target != "gatekeeper" or not case.exempted]
    different = []
    for number, (context, group) in enumerate(together(examples)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = judge(binary, context, [case.manifest for case in group], folder)
        different += [
            {"object": case.name, "python": sorted(case.broken), target: sorted(found[case.name])}
            for case in group
            if not agrees(case, found[case.name])
        ]
    figures = {"cases": len(examples), "agree": len(examples) - len(different)}
    results.store(f"exports-{target}", {**figures, "version": PEERS[name].version})
    assert not different
    judged = {case.rule for case in examples if case.rule in case.broken and not case.refused}
    twins = {id_ for id_, twin in TWINS.items() if isinstance(twin, Twin)}
    assert twins - judged <= ELSEWHERE.keys()


# An API server writes quantities as texts.
ONE = {GPU: "1"}
BAD = pod("default", container(ONE, securityContext={"privileged": True}))
KEPT = pod("default", container(ONE))
DEBUGGED = pod(
    "default",
    container(ONE),
    ephemeralContainers=[
        {"name": "debug", "image": "a", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ],
)
ADDED = review("UPDATE", DEBUGGED, KEPT, "ephemeralcontainers")
REQUESTS = {
    "GpuRulesPodsMandatory": {
        "creation": (review("CREATE", BAD), True),
        "good": (review("CREATE", KEPT), False),
        "audit": (BAD, True),
        "update": (review("UPDATE", BAD, BAD), False),
        "added": (ADDED, False),
    },
    "GpuRulesPodUpdatesMandatory": {
        "creation": (review("CREATE", BAD), False),
        "unchanged": (review("UPDATE", BAD, BAD), False),
    },
    "GpuRulesEphemeralContainersMandatory": {
        "creation": (review("CREATE", BAD), False),
        "added": (ADDED, True),
        "unchanged": (review("UPDATE", DEBUGGED, DEBUGGED, "ephemeralcontainers"), False),
    },
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_constraint_judges_the_requests_of_its_policy_alone(kind: str, tmp_path: Path) -> None:
    verified(program("gator"), kind, REQUESTS[kind], tmp_path)
