"""The resources that the component `Guardrails` declares, and the configuration that it rejects.

The Pulumi engine is mocked.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from gpu_cluster.guardrails.component import Guardrails, enforcement
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.platform import NAMES
from gpu_rules.faults import ConfigError
from gpu_rules.rules import Severity
from tests.desired_host import guarded
from tests.fixtures.clusters import cluster
from tests.mocks import Recorder, declare

POLICY = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy"


def build(cluster: Cluster, preview: bool = False) -> Recorder:
    def program() -> None:
        Guardrails("guardrails", guarded(cluster), pulumi.ResourceOptions())

    return declare(program, preview=preview)


def guarding(**guardrails: Any) -> Cluster:
    return cluster(guardrails={"mode": "enforce", **guardrails})


@pytest.mark.parametrize("preview", [False, True], ids=["up", "preview"])
def test_policies_come_with_a_binding_each(preview: bool) -> None:
    made = build(guarding(), preview)
    policies = [resource.inputs["metadata"]["name"] for resource in made.of(POLICY)]
    bound = [resource.inputs["spec"]["policyName"] for resource in made.of(f"{POLICY}Binding")]
    assert policies
    assert sorted(policies) == sorted(bound)


def test_a_quota_counts_under_requests() -> None:
    quotas = [{"namespace": "team-a", "resources": {"nvidia.com/gpu": 16}}]
    (made,) = build(guarding(quotas=quotas)).of("kubernetes:core/v1:ResourceQuota")
    assert made.inputs["metadata"]["namespace"] == "team-a"
    assert made.inputs["spec"]["hard"] == {"requests.nvidia.com/gpu": "16"}


@pytest.mark.promise("A quota on HAMi's memory or cores counts for the API server and for HAMi.")
def test_a_quota_on_shares_has_the_name_that_hami_counts_too() -> None:
    quotas = [{"namespace": "team-a", "resources": {"nvidia.com/gpumem": 80_000}}]
    (made,) = build(guarding(quotas=quotas)).of("kubernetes:core/v1:ResourceQuota")
    assert made.inputs["spec"]["hard"] == {
        "limits.nvidia.com/gpumem": "80000",
        "requests.nvidia.com/gpumem": "80000",
    }


def test_a_quota_on_devices_of_a_class_has_the_name_that_kubernetes_counts() -> None:
    name = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    quotas = [{"namespace": "team-a", "resources": {name: 4}}]
    (made,) = build(guarding(quotas=quotas)).of("kubernetes:core/v1:ResourceQuota")
    assert made.inputs["spec"]["hard"] == {name: "4"}


def test_the_caps_are_those_of_the_deployed_policies() -> None:
    made = build(guarding(maxGpusPerContainer=4, maxGpusPerPod=8))
    (facts,) = {
        resource.inputs["spec"]["variables"][0]["expression"]
        for resource in made.of(POLICY)
        if resource.inputs["metadata"]["name"] == "gpu-rules-pods-mandatory"
    }
    assert '"maxGpusPerContainer": "4", "maxGpusPerPod": "8"' in facts
    assert any("variables.GPU028" in str(resource.inputs) for resource in made.of(POLICY))
    assert not any(
        "variables.GPU028" in str(resource.inputs) for resource in build(guarding()).of(POLICY)
    )


def test_who_makes_the_pods_of_daemon_sets_can_be_named() -> None:
    made = build(guarding(daemonSetControllers=["kubernetes-admin"])).of(POLICY)
    assert any(
        '"daemonSetControllers": "kubernetes-admin,system:kube-controller-manager,'
        'system:serviceaccount:kube-system:daemon-set-controller"' in str(resource.inputs)
        for resource in made
    )


@pytest.mark.parametrize(
    ("mode", "mandatory", "advisory"),
    [("enforce", "Deny", "Warn"), ("warn", "Warn", "Warn"), ("audit", "Audit", "Audit")],
)
def test_the_mode_says_what_a_violation_does(mode: str, mandatory: str, advisory: str) -> None:
    declared = cluster(guardrails={"mode": mode})
    assert declared.guardrails
    declared_mode = enforcement(guarded(declared))
    assert declared_mode.actions[Severity.MANDATORY][0] == mandatory
    assert declared_mode.actions[Severity.ADVISORY][0] == advisory
    assert declared_mode.failure_policy == "Fail"


def test_the_namespaces_of_kubernetes_and_the_platform_are_left_alone() -> None:
    declared = guarding(excludedNamespaces=["monitoring"])
    assert declared.guardrails
    mode = enforcement(guarded(declared))
    assert mode.excluded == (
        "kube-system",
        "monitoring",
        "nvidia-device-plugin",
    )


@pytest.mark.parametrize("platform", NAMES)
def test_every_platform_has_its_own_namespace_left_alone(platform: str) -> None:
    declared = cluster(hosts=[], platform=str(platform), guardrails={"mode": "warn"})
    assert declared.guardrails
    mode = enforcement(guarded(declared))
    assert "kube-system" in mode.excluded


def test_without_the_section_there_are_no_guardrails() -> None:
    assert cluster().guardrails is None


@pytest.mark.parametrize(
    ("guardrails", "path"),
    [
        ({}, "guardrails.mode"),
        ({"mode": "on"}, "guardrails.mode"),
        ({"mode": "warn", "maxGpusPerPod": -1}, "guardrails.maxGpusPerPod"),
        ({"mode": "warn", "failurePolicy": "open"}, "guardrails.failurePolicy"),
        ({"mode": "warn", "excludedNamespaces": ["A"]}, "guardrails.excludedNamespaces"),
        (
            {"mode": "warn", "quotas": [{"namespace": "a", "resources": {}}]},
            "guardrails.quotas[0].resources",
        ),
        (
            {"mode": "warn", "quotas": [{"namespace": "a", "resources": {"cpu": 1}}]},
            "guardrails.quotas[0].resources.cpu",
        ),
        (
            {
                "mode": "warn",
                "quotas": [{"namespace": "a", "resources": {"requests.nvidia.com/gpu": 1}}],
            },
            'guardrails.quotas[0].resources["requests.nvidia.com/gpu"]',
        ),
        (
            {"mode": "warn", "quotas": 2 * [{"namespace": "a", "resources": {"a.b/c": 1}}]},
            "guardrails.quotas",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_its_path(guardrails: Any, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(guardrails=guardrails)
    assert any(problem.place.startswith(path) for problem in refused.value.faults)
