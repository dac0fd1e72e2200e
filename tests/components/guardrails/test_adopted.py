"""Adopted GPU software is judged as the software that it is, whatever its namespace."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.guardrails.component import enforcement
from gpu_cluster.loading.loader import load
from gpu_rules.rules import Context, Severity, evaluate
from tests.desired_host import guarded
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
SPACE = "nvidia"
PLUGIN: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvdp-nvidia-device-plugin", "namespace": SPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "nvdp"}},
        "template": {
            "metadata": {"labels": {"app": "nvdp"}},
            "spec": {
                "runtimeClassName": "nvidia",
                "tolerations": [{"operator": "Exists"}],
                "volumes": [
                    {
                        "name": "plugins",
                        "hostPath": {"path": "/var/lib/kubelet/device-plugins"},
                    }
                ],
                "containers": [
                    {
                        "name": "plugin",
                        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
                        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
                        "securityContext": {"privileged": True},
                        "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
                    }
                ],
            },
        },
    },
}
"""The DaemonSet of the release `nvdp`, with the parts that rules forbid to workloads."""
RELEASE: Json = {"name": "nvdp", "namespace": SPACE, "version": "0.20.0"}


def document(platform: str = "device-plugin", **adopted: Any) -> Json:
    return stack_document(
        context="none",
        platform=platform,
        nodes=["gpu-1"],
        adopted=adopted,
        guardrails={"mode": "enforce"},
    )


def context(**adopted: Any) -> Context:
    return resolve(load(document(**adopted)), "dev").rules


def named(name: str, space: str = SPACE) -> Json:
    made = copy.deepcopy(PLUGIN)
    made["metadata"] |= {"name": name, "namespace": space}
    return made


def pod(manifest: Json, **metadata: Any) -> Json:
    """Return a pod of the DaemonSet, as a cluster has it."""
    owner = {"kind": "DaemonSet", "name": manifest["metadata"]["name"], "controller": True}
    space = manifest["metadata"]["namespace"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": space, "ownerReferences": [owner], **metadata},
        "spec": manifest["spec"]["template"]["spec"],
    }


def refused(manifest: Json, known: Context) -> set[str]:
    broken = evaluate(manifest, known)
    return {each.rule.id for each in broken if each.severity is Severity.MANDATORY}


@pytest.mark.parametrize(
    "adopted",
    [{"release": RELEASE}, {"objects": [PLUGIN]}],
    ids=["release", "objects"],
)
def test_the_adopted_plugin_breaks_no_rule_in_any_namespace(adopted: Json) -> None:
    known = context(**adopted)
    assert evaluate(PLUGIN, known) == []
    assert evaluate(pod(PLUGIN), replace(known, observed=True)) == []
    owned = pod(PLUGIN, uid="1")
    assert "GPU017" in refused(owned, known), "anybody can write an owner and a uid into a file"


@pytest.mark.parametrize(
    "other", [named("nvdp2"), named("mine"), named("nvdp-nvidia-device-plugin", "team")]
)
def test_the_namespace_of_an_adopted_release_makes_nothing_else_trusted(other: Json) -> None:
    known = context(release=RELEASE)
    assert refused(other, known) >= {"GPU017", "GPU063"}


def test_a_release_with_another_name_for_its_objects_is_known_by_that_name() -> None:
    renamed = {**RELEASE, "values": {"fullnameOverride": "plugin"}}
    assert evaluate(named("plugin"), context(release=renamed)) == []
    assert refused(named("plugin"), context(release=RELEASE))


def test_an_adopted_operator_s_namespace_is_left_to_the_operator() -> None:
    release = {"name": "gpu", "namespace": "gpu-system", "version": "v26.7.0"}
    cluster = load(document("gpu-operator", release=release))
    operand = named("nvidia-operator-validator", "gpu-system")
    assert evaluate(operand, resolve(cluster, "dev").rules) == []
    assert "gpu-system" in enforcement(guarded(cluster)).excluded
