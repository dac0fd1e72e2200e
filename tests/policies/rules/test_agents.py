"""Node agents get advice where other pods are refused, and exemptions in the settings hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from policies.parameters import context_by
from policies.rules import Context, NodeTaint, PoolFacts, Severity, evaluate
from tests.policies.rules.agents import agent

GPU = "nvidia.com/gpu"
POOL = PoolFacts("a100", 8, (NodeTaint(GPU),), nodes=1)
CONTEXT = Context(pools=(POOL,), today=date(2026, 6, 1))
OPEN = Context(pools=(replace(POOL, taints=()),))


def found(manifest: Any, context: Context = CONTEXT) -> dict[str, str]:
    """Return the severity of each broken rule; an exemption makes it advice."""
    return {v.rule.id: str(v.severity) for v in evaluate(manifest, context)}


ADVICE = {"GPU078": "advisory"}


@pytest.mark.promise("Node agents that mount folders of their nodes are advised, not refused.")
@pytest.mark.parametrize(
    ("path", "written", "read"),
    [
        ("/", ADVICE, {}),
        ("/dev", ADVICE, {}),
        ("/var/lib/kubelet", ADVICE, {}),
        ("/run/k3s", ADVICE, {}),
        ("/opt", ADVICE, {}),
        ("/var/log", {}, {}),
        ("/sys", {}, {}),
        ("/run/containerd/containerd.sock", ADVICE, ADVICE),
        ("/run/nri", ADVICE, ADVICE),
        ("/opt/nri/plugins", ADVICE, ADVICE),
        ("/var/run/cdi", ADVICE, ADVICE),
        ("/dev/dri", {"GPU036": "mandatory"}, ADVICE),
        ("/dev/nvidia0", {"GPU036": "mandatory"}, ADVICE),
    ],
)
def test_host_paths_of_an_agent_are_told_apart(path: str, written: Any, read: Any) -> None:
    assert found(agent(path)) == written
    assert found(agent(path, read_only=True)) == read
    other = {**agent(path, read_only=True, kind="Deployment")}
    refused = {"GPU032", "GPU036"} if written else {"GPU032"}
    assert set(found(other)) == refused


def test_an_agent_with_gpus_is_none() -> None:
    taking = agent("/dev", read_only=True, resources={"limits": {GPU: 1}})
    assert found(taking)["GPU036"] == "mandatory"
    privileged = agent(resources={"limits": {GPU: 1}}, securityContext={"privileged": True})
    assert found(privileged)["GPU022"] == "mandatory"


def test_a_privileged_container_near_gpus_is_told() -> None:
    privileged: Any = {"securityContext": {"privileged": True}}
    assert found(agent(**privileged)) == {"GPU079": "advisory"}
    away = agent(**privileged)
    away["spec"]["template"]["spec"]["tolerations"] = []
    assert found(away) == {}
    assert found(away, OPEN) == {"GPU079": "advisory"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    pod["spec"] = away["spec"]["template"]["spec"]
    assert found(pod, OPEN) == {"GPU079": "advisory"}
    assert found(pod) == {}


def exempting(**given: Any) -> Context:
    settings = {"rules": ["GPU036"], "until": "2026-12-31", "reason": "why", **given}
    return context_by({"exemptions": [settings]}, CONTEXT)


DEVICE = agent("/dev/nvidia0", "/data")


@pytest.mark.promise(
    "Exemptions in the settings hold by namespace, labels, images and host paths, until a day."
)
@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({}, True),
        ({"rules": ["GPU022"]}, False),
        ({"until": "2026-05-31"}, False),
        ({"until": "2026-06-01"}, True),
        ({"namespaces": ["m"]}, True),
        ({"namespaces": ["n", "m*"]}, True),
        ({"namespaces": ["n"]}, False),
        ({"namespaces": ["."]}, False),
        ({"labels": {"app": "a"}}, True),
        ({"labels": {"app": "a", "b": "c"}}, False),
        ({"images": ["quay.io/agents/*"]}, True),
        ({"images": ["quay.io/agents"]}, False),
        ({"hostPaths": ["/dev/nvidia*", "/data"]}, True),
        ({"hostPaths": ["/dev/nvidia*"]}, False),
        ({"namespaces": ["m"], "images": ["docker.io/*"]}, False),
    ],
)
def test_an_exemption_in_the_settings_holds_where_each_part_matches(
    given: Any, holds: bool
) -> None:
    (violation,) = evaluate(DEVICE, exempting(**given))
    assert violation.rule.id == "GPU036"
    assert (violation.severity is Severity.ADVISORY) == holds
    assert violation.exemption == (
        f"until {given.get('until', '2026-12-31')}: why" if holds else ""
    )


def test_settings_add_to_the_levels_of_the_stack() -> None:
    stack = replace(CONTEXT, severities={"GPU050": Severity.OFF})
    both = context_by({"rules": {"GPU049": "off"}}, stack)
    assert both.severities == {"GPU050": "off", "GPU049": "off"}


def test_a_pool_is_reached_by_tolerations_of_all_its_taints() -> None:
    two = replace(POOL, taints=(NodeTaint(GPU), NodeTaint("batch", "", "NoExecute")))
    evicted = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    manifest = agent(kind="Deployment")
    manifest["spec"]["template"]["spec"]["tolerations"] = [evicted]
    assert found(manifest, Context(pools=(two,))) == {}
    manifest["spec"]["template"]["spec"]["tolerations"] += [{"key": GPU, "operator": "Exists"}]
    assert found(manifest, Context(pools=(two,))) == {"GPU032": "mandatory"}
