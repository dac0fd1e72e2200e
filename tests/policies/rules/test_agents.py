"""Node agents get advice where other pods are refused, and exemptions in the settings hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from gpu_rules.parameters import context_by
from gpu_rules.rules import Context, NodeTaint, PoolFacts, Severity
from tests.policies.rules.agents import agent
from tests.policies.rules.messages import judge

GPU = "nvidia.com/gpu"
POOL = PoolFacts("a100", 8, (NodeTaint(GPU),), nodes=1)
CONTEXT = Context(pools=(POOL,), today=date(2026, 6, 1))
OPEN = Context(pools=(replace(POOL, taints=()),))


def found(manifest: Any, context: Context = CONTEXT) -> dict[str, str]:
    """Return the severity of each broken rule; an exemption makes it advice."""
    return {v.rule.id: str(v.severity) for v in judge(manifest, context)}


ADVICE = {"GPU078": "advisory"}


@pytest.mark.promise(
    "Node agents that mount folders of their nodes are advised, not refused, in namespaces that "
    "the stack trusts or exempts, or as long as nobody says which namespaces those are."
)
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
    assert set(found(other)) == {"GPU032", "GPU036"}


DECLARED = replace(CONTEXT, infrastructure_namespaces=frozenset({"trusted"}))
HOST_ACCESS: Any = {
    "root": agent("/"),
    "read-only": agent("/", read_only=True),
    "socket": agent("/run/containerd/containerd.sock"),
    "privileged": agent(securityContext={"privileged": True}),
}


@pytest.mark.promise(
    "A DaemonSet with host access is refused like a pod, in a namespace that the stack does not "
    "trust."
)
@pytest.mark.parametrize("name", HOST_ACCESS)
def test_a_daemon_set_is_judged_by_who_deploys_it(name: str) -> None:
    manifest = HOST_ACCESS[name]
    template = manifest["spec"]["template"]["spec"]
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "m"}, "spec": template}
    assert found(manifest, DECLARED) == found(pod, DECLARED)
    assert "mandatory" in found(manifest, DECLARED).values()
    trusted = {**manifest, "metadata": {"name": "a", "namespace": "trusted"}}
    assert found(trusted, DECLARED) == {}
    settings = {"rules": ["GPU032", "GPU036", "GPU079"], "until": "2026-12-31", "reason": "why"}
    exempt = context_by({"exemptions": [{**settings, "namespaces": ["m"]}]}, DECLARED)
    assert "mandatory" not in found(manifest, exempt).values()


def test_a_privileged_pod_on_nodes_without_taints_is_refused_where_trust_is_declared() -> None:
    away = agent(securityContext={"privileged": True}, kind="Deployment")
    away["spec"]["template"]["spec"]["tolerations"] = []
    declared = replace(OPEN, infrastructure_namespaces=frozenset())
    assert found(away, declared) == {"GPU079": "mandatory"}


def test_a_network_plugin_is_not_told_to_tolerate_what_it_may_not() -> None:
    network = agent("/etc/cni/net.d")
    network["spec"]["template"]["spec"]["tolerations"] = []
    assert found(network) == {"GPU033": "mandatory"}
    assert "GPU033" not in found(network, DECLARED)


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
    (violation,) = judge(DEVICE, exempting(**given))
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
