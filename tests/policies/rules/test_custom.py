"""Pods are found in custom kinds, and a custom kind that may request GPUs otherwise is reported."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from policies.rules import Context, evaluate, evaluate_stack
from policies.rules.custom import unread
from policies.rules.unknown import UNKNOWN

BAD = "{name: c, image: i:1, resources: {limits: {nvidia.com/gpu: 500m}}}"
POD = f"spec: {{containers: [{BAD}]}}"
LIMIT = "resources.limits[nvidia.com/gpu]"
# Columns: kind, spec, and the path of the container that requests half a GPU.
KINDS: dict[str, tuple[str, str, str]] = {
    "PyTorchJob": (
        "kubeflow.org/v1",
        f"pytorchReplicaSpecs: {{Worker: {{replicas: 2, template: {{{POD}}}}}}}",
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]",
    ),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        f"mpiReplicaSpecs: {{Worker: {{template: {{{POD}}}}}}}",
        "spec.mpiReplicaSpecs.Worker.template.spec.containers[0]",
    ),
    "RayCluster": (
        "ray.io/v1",
        f"workerGroupSpecs: [{{groupName: a, template: {{{POD}}}}}]",
        "spec.workerGroupSpecs[0].template.spec.containers[0]",
    ),
    "RayService": (
        "ray.io/v1",
        f"rayClusterConfig: {{headGroupSpec: {{template: {{{POD}}}}}}}",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0]",
    ),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        f"replicatedJobs: [{{template: {{spec: {{template: {{{POD}}}}}}}}}]",
        "spec.replicatedJobs[0].template.spec.template.spec.containers[0]",
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        f"leaderWorkerTemplate: {{workerTemplate: {{{POD}}}}}",
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]",
    ),
    "Job": (
        "batch.volcano.sh/v1alpha1",
        f"tasks: [{{template: {{{POD}}}}}]",
        "spec.tasks[0].template.spec.containers[0]",
    ),
    "Service": (
        "serving.knative.dev/v1",
        f"template: {{{POD}}}",
        "spec.template.spec.containers[0]",
    ),
    "InferenceService": (
        "serving.kserve.io/v1beta1",
        f"predictor: {{containers: [{BAD}]}}",
        "spec.predictor.containers[0]",
    ),
    "Workflow": (
        "argoproj.io/v1alpha1",
        f"templates: [{{name: a}}, {{name: train, container: {BAD}}}]",
        "spec.templates[1].container",
    ),
}
CONTEXT = Context()


def custom(kind: str, api: str, spec: str) -> Any:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "train", "namespace": "team"},
        "spec": yaml.safe_load(f"{{{spec}}}"),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_pods_of_a_custom_kind_are_judged(kind: str) -> None:
    api, spec, place = KINDS[kind]
    manifest = custom(kind, api, spec)
    paths = {
        violation.path for violation in evaluate(manifest, CONTEXT) if violation.rule.id == "GPU001"
    }
    assert paths == {f"{place}.{LIMIT}"}
    assert unread(manifest) == ""


def test_every_pod_of_an_object_is_judged_where_it_lies() -> None:
    one = BAD.replace("500m", "1")
    tolerant = f"spec: {{tolerations: [{{operator: Exists}}], nodeName: a, containers: [{one}]}}"
    both = (
        f"headGroupSpec: {{template: {{{tolerant}}}}}, workerGroupSpecs: [{{template: {{{POD}}}}}]"
    )
    violations = evaluate(custom("RayCluster", "ray.io/v1", both), CONTEXT)
    paths = {
        (violation.rule.id, violation.path)
        for violation in violations
        if violation.rule.id in ("GPU001", "GPU016")
    }
    assert paths == {
        ("GPU001", f"spec.workerGroupSpecs[0].template.spec.containers[0].{LIMIT}"),
        ("GPU016", "spec.headGroupSpec.template.spec.nodeName"),
    }
    inline = f"predictor: {{nodeName: a, containers: [{BAD.replace('500m', '1')}]}}"
    (where,) = (
        violation.path
        for violation in evaluate(
            custom("InferenceService", "serving.kserve.io/v1", inline), CONTEXT
        )
        if violation.rule.id == "GPU016"
    )
    assert where == "spec.predictor.nodeName"


def test_a_namespace_with_a_custom_workload_needs_its_quota() -> None:
    job = custom("PyTorchJob", "kubeflow.org/v1", KINDS["PyTorchJob"][1].replace("500m", "1"))
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    assert [violation.rule.id for violation in evaluate_stack([team, job], CONTEXT)] == ["GPU029"]


def test_an_exemption_in_the_template_of_a_custom_kind_holds() -> None:
    note = 'metadata: {annotations: {exempt.gpu-cluster/GPU001: "2099-12-31 why"}}'
    spec = f"workerGroupSpecs: [{{template: {{{note}, {POD}}}}}]"
    (violation,) = (
        violation
        for violation in evaluate(custom("RayCluster", "ray.io/v1", spec), CONTEXT)
        if violation.rule.id == "GPU001"
    )
    assert violation.exemption


@pytest.mark.parametrize(
    ("kind", "api", "spec", "told"),
    [
        ("SparkApplication", "sparkoperator.k8s.io/v1beta2", "executor: {gpu: {name: a}}", True),
        ("ResourceClaim", "resource.k8s.io/v1", "devices: {requests: [{name: gpu}]}", False),
        (
            "VirtualMachine",
            "kubevirt.io/v1",
            "template: {spec: {domain: {devices: {hostDevices: [{deviceName: nvidia.com/A10}]}}}}",
            True,
        ),
        ("VirtualMachine", "kubevirt.io/v1", "template: {spec: {domain: {cpu: 4}}}", False),
        ("Deployment", "apps/v1", "template: {spec: {gpu: 1}}", False),
        ("Widget", "example.com/v1", "colour: red", False),
    ],
)
def test_what_may_ask_in_a_way_that_no_rule_reads_is_told(
    kind: str, api: str, spec: str, told: bool
) -> None:
    assert unread(custom(kind, api, spec)) == (f"{kind} ({api})" if told else "")


def test_depth_size_and_what_is_unknown_end_the_search() -> None:
    deep: Any = {"containers": [{"image": "i"}]}
    for _ in range(5000):
        deep = {"a": [deep]}
    wide = [{"gpu": index} for index in range(100_000)]
    for spec in (deep, {"a": wide}, UNKNOWN, {"a": UNKNOWN}, [{}], "x"):
        manifest = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec}
        assert [
            violation for violation in evaluate(manifest, CONTEXT) if violation.rule.id == "GPU001"
        ] == []
        unread(manifest)
