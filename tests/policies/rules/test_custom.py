# ruff: noqa: E501  a table reads best one case a line
"""Pods inside custom resources are checked; GPU requests in an unknown form are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpu_rules.rules import Context, NodeTaint, PoolFacts
from gpu_rules.rules.custom import pods, unread
from gpu_rules.rules.unknown import UNKNOWN
from tests.policies.rules.messages import judge, judge_stack

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
PATCHED = '''templates: [{name: a, container: {image: i}}], podSpecPatch:
  "{containers: [{name: main, resources: {limits: {nvidia.com/gpu: %s}}}]}"'''


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
        violation.path for violation in judge(manifest, CONTEXT) if violation.rule.id == "GPU001"
    }
    assert paths == {f"{place}.{LIMIT}"}
    assert list(unread(manifest)) == []


def test_every_pod_of_an_object_is_judged_where_it_lies() -> None:
    one = BAD.replace("500m", "1")
    tolerant = f"spec: {{tolerations: [{{operator: Exists}}], nodeName: a, containers: [{one}]}}"
    both = (
        f"headGroupSpec: {{template: {{{tolerant}}}}}, workerGroupSpecs: [{{template: {{{POD}}}}}]"
    )
    violations = judge(custom("RayCluster", "ray.io/v1", both), CONTEXT)
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
        for violation in judge(custom("InferenceService", "serving.kserve.io/v1", inline), CONTEXT)
        if violation.rule.id == "GPU016"
    )
    assert where == "spec.predictor.nodeName"


def test_a_namespace_with_a_custom_workload_needs_its_quota() -> None:
    job = custom("PyTorchJob", "kubeflow.org/v1", KINDS["PyTorchJob"][1].replace("500m", "1"))
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    broken = {violation.rule.id for violation in judge_stack([team, job], CONTEXT)}
    assert broken == {"GPU029", "GPU060"}


def test_an_exemption_in_the_template_of_a_custom_kind_holds() -> None:
    note = 'metadata: {annotations: {exempt.gpu-cluster/GPU001: "2030-12-31 why"}}'
    spec = f"workerGroupSpecs: [{{template: {{{note}, {POD}}}}}]"
    (violation,) = (
        violation
        for violation in judge(custom("RayCluster", "ray.io/v1", spec), CONTEXT)
        if violation.rule.id == "GPU001"
    )
    assert violation.exemption


@pytest.mark.parametrize(
    ("kind", "api", "spec", "paths"),
    [
        ("Train", "example.com/v1", 'file: "limits:\\n  nvidia.com/gpu: 1\\n"', ["spec.file"]),
        ("Train", "example.com/v1", "file: uses nvidia.com/gpu", []),
        ("Train", "example.com/v1", 'file: "limits:\\n  nvidia.com/gpu: 0\\n"', []),
        ("Train", "example.com/v1", 'file: "{nvidia.com/gpu: 0, cpu: 1}"', []),
        ("Train", "example.com/v1", 'file: "limits:\\n  nvidia.com/gpu: 0x8\\n"', ["spec.file"]),
        ("Train", "example.com/v1", "gpuCards: 2", ["spec.gpuCards"]),
        ("Train", "example.com/v1", "gpuCards: 0, gpuDriver: true", []),
        ("Train", "example.com/v1", "labels: {gpuCards: 2}", []),
        ("Workflow", "argoproj.io/v1alpha1", PATCHED % "{{inputs.gpus}}", ["spec.podSpecPatch"]),
        ("Model", "kubeai.org/v1", "resourceProfile: 'nvidia-gpu-l4:1'", ["spec.resourceProfile"]),
        ("Model", "kubeai.org/v1", "resourceProfile: 'cpu:2'", []),
        ("ClusterQueue", "kueue.x-k8s.io/v1beta1", "a: {gpuCards: 2}", []),
        ("ResourceClaim", "resource.k8s.io/v1", "devices: {gpuCards: 2}", []),
        ("Deployment", "apps/v1", "template: {spec: {gpuCards: 1}}", []),
        ("Widget", "example.com/v1", "colour: red", []),
    ],
)
def test_what_may_request_gpus_in_a_way_that_nothing_reads_is_listed(
    kind: str, api: str, spec: str, paths: list[str]
) -> None:
    assert list(unread(custom(kind, api, spec))) == paths


def test_a_placeholder_in_a_patch_is_a_value_that_is_not_known() -> None:
    spec = PATCHED % "'{{inputs.parameters.gpus}}'"
    workflow = custom("Workflow", "argoproj.io/v1alpha1", spec)
    found = {violation.rule.id for violation in judge(workflow, CONTEXT)}
    assert found == {"GPU048", "GPU050", "GPU051"}
    assert list(unread(workflow)) == []


@pytest.mark.promise("A manifest inside a ConfigMap that asks for GPUs is listed as not judged.")
@pytest.mark.parametrize(
    ("written", "paths"),
    [
        (f"apiVersion: v1\nkind: Pod\n{POD}\n", ["data[a.yaml]"]),
        (f"# a job\napiVersion: v1\nkind: Pod\nname: {{{{.Name}}}}\n{POD}\n", ["data[a.yaml]"]),
        ("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu}]}}\n", []),
        ("limits = {'nvidia.com/gpu': 1}\n", []),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: nvidia.com/gpu}]}\n", []),
    ],
)
def test_a_manifest_inside_a_config_map_is_listed(written: str, paths: list[str]) -> None:
    files = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.yaml": written, "b": None}}
    assert list(unread(files)) == paths


def test_depth_size_and_what_is_unknown_end_the_search() -> None:
    deep: Any = {"containers": [{"image": "i"}]}
    for _ in range(5000):
        deep = {"a": [deep]}
    wide = [{"gpu": index} for index in range(100_000)]
    specs: list[Any] = [deep, {"a": wide}, UNKNOWN, {"a": UNKNOWN}, [{}], "x"]
    for spec in specs:
        manifest = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec}
        assert [
            violation for violation in judge(manifest, CONTEXT) if violation.rule.id == "GPU001"
        ] == []
        list(unread(manifest))


TOLERANT = "tolerations: [{key: nvidia.com/gpu, operator: Exists}]"
HALF = "resources: {limits: {nvidia.com/gpu: 500m}}"
# Columns: kind, spec, and the path of the half GPU that is requested outside of a pod's containers,
# or in containers that only this kind names so. Each is the form of an object that was silent.
FORMS: dict[str, tuple[str, str, str, str]] = {
    # argoproj/argo-workflows examples
    "a script": ("Workflow", "argoproj.io/v1alpha1", f"templates: [{{script: {{image: i, {HALF}}}}}]", f"spec.templates[0].script.{LIMIT}"),
    "a sidecar": ("Workflow", "argoproj.io/v1alpha1", f"templates: [{{container: {{image: i}}, sidecars: [{{image: j, {HALF}}}]}}]", f"spec.templates[0].sidecars[0].{LIMIT}"),
    "a set of containers": ("Workflow", "argoproj.io/v1alpha1", f"templates: [{{containerSet: {{containers: [{{image: j, {HALF}}}]}}}}]", f"spec.templates[0].containerSet.containers[0].{LIMIT}"),
    "a patch of all pods": ("Workflow", "argoproj.io/v1alpha1", PATCHED % "500m", f"spec.templates[0].container.{LIMIT}"),
    # kserve/kserve docs/samples
    "a container without an image": ("LLMInferenceService", "serving.kserve.io/v1alpha2", f"template: {{containers: [{{{HALF}}}]}}, router: {{scheduler: {{template: {{containers: [{{image: i}}]}}}}}}", f"spec.template.containers[0].{LIMIT}"),
    "a model beside a transformer": ("InferenceService", "serving.kserve.io/v1beta1", f"predictor: {{model: {{{HALF}}}}}, transformer: {{containers: [{{image: i}}]}}", f"spec.predictor.model.{LIMIT}"),
    "a worker's spec beside containers": ("ServingRuntime", "serving.kserve.io/v1alpha1", f"containers: [{{image: i}}], workerSpec: {{containers: [{{image: i, {HALF}}}]}}", f"spec.workerSpec.containers[0].{LIMIT}"),
    # NVIDIA/k8s-nim-operator config/samples
    "a service": ("NIMService", "apps.nvidia.com/v1alpha1", HALF, f"spec.{LIMIT}"),
    "a service of a pipeline": ("NIMPipeline", "apps.nvidia.com/v1alpha1", f"services: [{{spec: {{{HALF}}}}}]", f"spec.services[0].spec.{LIMIT}"),
    # ai-dynamo/dynamo examples
    "GPUs without a domain": ("DynamoGraphDeployment", "nvidia.com/v1alpha1", "services: {W: {resources: {limits: {gpu: 500m}}}}", "spec.services.W.resources.limits[gpu]"),
    "GPUs beside a pod": ("DynamoGraphDeployment", "nvidia.com/v1alpha1", "services: {W: {resources: {limits: {gpu: 500m}}, extraPodSpec: {containers: [{image: i}], mainContainer: {image: j}}}}", "spec.services.W.resources.limits[gpu]"),
    # InftyAI/llmaz config/samples, kubeflow/trainer examples, sgl-project/ome config
    "limits alone": ("OpenModel", "llmaz.io/v1alpha1", "inferenceConfig: {flavors: [{limits: {nvidia.com/gpu: 500m}}]}", "spec.inferenceConfig.flavors[0].limits[nvidia.com/gpu]"),
    "resources of a node": ("TrainJob", "trainer.kubeflow.org/v1alpha1", "trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 500m}}}", "spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]"),
    "a runner": ("ClusterServingRuntime", "ome.io/v1beta1", f"engineConfig: {{runner: {{image: i, {HALF}}}}}", f"spec.engineConfig.runner.{LIMIT}"),
    # kubeflow/spark-operator, kubevirt/kubevirt, SlinkyProject/slurm-operator, tektoncd/pipeline
    "a name and a quantity": ("SparkApplication", "sparkoperator.k8s.io/v1beta2", "executor: {gpu: {name: nvidia.com/gpu, quantity: 0.5}}", "spec.executor.gpu"),
    "a daemon": ("NodeSet", "slinky.slurm.net/v1beta1", f"slurmd: {{{HALF}}}", f"spec.slurmd.{LIMIT}"),
    "a step": ("Task", "tekton.dev/v1", "steps: [{image: i, computeResources: {limits: {nvidia.com/gpu: 500m}}}]", "spec.steps[0].computeResources.limits[nvidia.com/gpu]"),
    # ray-project/kuberay: a Ray worker group whose containers name no image
    "a worker without an image": ("RayCluster", "ray.io/v1", f"headGroupSpec: {{template: {{spec: {{containers: [{{image: i}}]}}}}}}, workerGroupSpecs: [{{template: {{spec: {{containers: [{{{HALF}}}]}}}}}}]", f"spec.workerGroupSpecs[0].template.spec.containers[0].{LIMIT}"),
    # coreweave/kubernetes-cloud virtual-server, llmkube: GPUs by their number, beside their type
    "a number beside a type": ("VirtualServer", "virtualservers.coreweave.com/v1alpha1", "resources: {gpu: {type: Quadro_RTX_4000, count: 500m}, cpu: {count: 4}}", "spec.resources.gpu"),
    "a field of its own": ("Train", "example.com/v1", "workers: {gpus: 500m}", "spec.workers.gpus"),
    "a whole object": ("Bundle", "example.com/v1", f"manifests: [{{apiVersion: apps/v1, kind: Deployment, spec: {{template: {{{POD}}}}}}}]", f"spec.manifests[0].spec.template.spec.containers[0].{LIMIT}"),
}  # fmt: skip


@pytest.mark.promise("Whatever names GPUs in an object of a custom kind is judged where it lies.")
@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_a_request_is_judged_where_it_lies(name: str) -> None:
    kind, api, spec, path = FORMS[name]
    manifest = custom(kind, api, spec)
    found = [v.path for v in judge(manifest, CONTEXT) if v.rule.id == "GPU001"]
    assert found == [path]
    assert list(unread(manifest)) == []


BESIDE_A_POD = {"a whole object", "a worker's spec beside containers"}
"""Forms where what stands above belongs to another pod."""
TAINTED = Context(pools=(PoolFacts("a", 8, (NodeTaint("nvidia.com/gpu"),), nodes=4),))


@pytest.mark.parametrize("name", sorted(FORMS.keys() - BESIDE_A_POD))
def test_what_stands_above_a_request_holds_for_it(name: str) -> None:
    kind, api, spec, _ = FORMS[name]
    spec = spec.replace("500m", "1").replace("0.5", "1")
    manifest = custom(kind, api, f"{spec}, nodeName: gpu-1")
    assert "spec.nodeName" in {v.path for v in judge(manifest, TAINTED)}
    for given, rules in ((TOLERANT, set()), ("priority: 1", {"GPU004"})):
        manifest = custom(kind, api, f"{spec}, {given}")
        broken = {v.rule.id for v in judge(manifest, TAINTED) if v.severity == "mandatory"}
        assert broken <= rules


@pytest.mark.parametrize(
    ("kind", "api", "spec"),
    [
        ("ClusterQueue", "kueue.x-k8s.io/v1beta1", "resources: {nvidia.com/gpu: 500m}"),
        ("NodePool", "karpenter.sh/v1", "limits: {nvidia.com/gpu: 500m}"),
        ("Tenant", "example.com/v1", "quota: {hard: {requests.nvidia.com/gpu: 500m}}"),
        ("Train", "example.com/v1", "nodeSelector: {nvidia.com/gpu: 500m}"),
        ("Train", "example.com/v1", "gpu: {enabled: true}, gpuType: a100, labels: {gpu: 2}"),
        ("Train", "example.com/v1", "gpu: {count: 0, quota: 1}"),
        ("VirtualMachine", "kubevirt.io/v1", "template: {spec: {domain: {cpu: 4}}}"),
    ],
)
def test_what_names_gpus_and_requests_none_is_left_alone(kind: str, api: str, spec: str) -> None:
    manifest = custom(kind, api, spec)
    assert judge(manifest, TAINTED) == []
    assert list(unread(manifest)) == []


@pytest.mark.parametrize(
    ("kind", "named"), [("H100", "nvidia.com/gpu"), ("amd.com/gpu", "amd.com/gpu")]
)
def test_the_model_of_a_gpu_is_no_name_of_a_resource(kind: str, named: str) -> None:
    # sgl-project/ome config/samples/benchmark and ai-dynamo/dynamo deploy
    manifest = custom("Run", "example.com/v1", f"resources: {{gpuType: {kind}, gpuCount: 1}}")
    assert [set(one.limits) for made in pods(manifest) for one in made.containers] == [{named}]


@pytest.mark.parametrize(
    "where",
    [
        "controllers: {a: {pod: {%s}, containers: {b: {%s}}}}",
        "defaultPodOptions: {%s}, controllers: {a: {containers: {b: {%s}}}}",
    ],
)
def test_a_claim_of_a_container_of_values_is_one_for_gpus(where: str) -> None:
    # bjw-s-labs/helm-charts charts/library/common: containers by name, claims beside them
    claimed = "resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}]"
    used = (
        "image: {tag: a}, resources: {claims: [{name: gpu}]}, securityContext: {privileged: true}"
    )
    context = replace(CONTEXT, other_claims=frozenset({"mine"}))
    for template, rules in (("one-gpu", ["GPU022"]), ("mine", [])):
        values = where % (claimed % template, used)
        release = custom("HelmRelease", "helm.toolkit.fluxcd.io/v2", f"values: {{{values}}}")
        assert [v.rule.id for v in judge(release, context) if v.rule.id == "GPU022"] == rules


def test_a_claim_of_a_service_is_one_for_gpus() -> None:
    for claim in (
        "{resourceClaimTemplateName: train}",
        "{claimCreationSpec: {devices: [{deviceClassName: gpu.nvidia.com}]}}",
    ):
        manifest = custom("NIMService", "apps.nvidia.com/v1alpha1", f"draResources: [{claim}]")
        assert [v.rule.id for v in judge(manifest, TAINTED)] == ["GPU004"]
    other = "{claimCreationSpec: {devices: [{deviceClassName: nic.example.com}]}}"
    manifest = custom("NIMService", "apps.nvidia.com/v1alpha1", f"draResources: [{other}]")
    assert judge(manifest, TAINTED) == []


def test_claims_of_a_mapping_count_once_although_it_has_no_containers() -> None:
    # defilantech/LLMKube api/v1alpha1: a Model names the claims, and the pods are made from it
    claims = "resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}]"
    for template, rules in (("one-gpu", ["GPU004"]), ("nic", [])):
        spec = f"hardware: {{gpu: {{{claims % template}}}}}"
        model = custom("Model", "inference.llmkube.dev/v1alpha1", spec)
        assert [v.rule.id for v in judge(model, TAINTED)] == rules
    inside = "workers: [{containers: [{image: a, resources: {claims: [{name: gpu}]}}]}]"
    group = custom("Group", "example.com/v1", f"{claims % 'one-gpu'}, {inside}")
    assert [pod.loose for pod in pods(group)] == [False]


def test_a_device_of_a_virtual_machine_is_one_that_the_settings_name() -> None:
    name = "nvidia.com/GA102GL_A10"
    domain = f"domain: {{devices: {{gpus: [{{deviceName: {name}}}]}}}}"
    manifest = custom("VirtualMachine", "kubevirt.io/v1", f"template: {{spec: {{{domain}}}}}")
    named = replace(TAINTED, resource_names=frozenset({name}))
    assert [(v.rule.id, v.path) for v in judge(manifest, named)] == [
        ("GPU004", "spec.template.spec.domain.devices.tolerations")
    ]


def test_steps_without_gpus_may_stand_below_tolerations_of_the_whole() -> None:
    steps = "templates: [{container: {image: i}}]"
    whole = custom("Workflow", "argoproj.io/v1alpha1", f"{TOLERANT}, {steps}")
    assert judge(whole, TAINTED) == []
    own = custom("Workflow", "argoproj.io/v1alpha1", steps.replace("[{", f"[{{{TOLERANT}, "))
    assert [v.rule.id for v in judge(own, TAINTED)] == ["GPU032"]


# Columns: kind, spec, and how many pods run at the same time.
COPIES: dict[str, tuple[str, str, str, list[int]]] = {
    "replicas": ("PyTorchJob", "kubeflow.org/v1", f"pytorchReplicaSpecs: {{Worker: {{replicas: 100, template: {{{POD}}}}}}}", [100]),
    "one by default": ("PyTorchJob", "kubeflow.org/v1", f"pytorchReplicaSpecs: {{Worker: {{template: {{{POD}}}}}}}", [1]),
    "jobs and pods of each": ("JobSet", "jobset.x-k8s.io/v1alpha2", f"replicatedJobs: [{{replicas: 3, template: {{spec: {{parallelism: 4, template: {{{POD}}}}}}}}}]", [12]),
    "groups and their workers": ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", f"replicas: 2, leaderWorkerTemplate: {{size: 4, leaderTemplate: {{{POD}}}, workerTemplate: {{{POD}}}}}", [2, 6]),
    "groups without a leader": ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", f"replicas: 2, leaderWorkerTemplate: {{size: 4, workerTemplate: {{{POD}}}}}", [8]),
    "hosts of each": ("RayCluster", "ray.io/v1", f"workerGroupSpecs: [{{replicas: 2, numOfHosts: 4, template: {{{POD}}}}}]", [8]),
    "at least": ("InferenceService", "serving.kserve.io/v1beta1", f"predictor: {{minReplicas: 3, model: {{{HALF}}}}}", [3]),
    "one of its own": ("LLMInferenceService", "serving.kserve.io/v1alpha2", f"replicas: 2, parallelism: {{tensor: 8}}, template: {{containers: [{BAD}]}}, prefill: {{replicas: 3, template: {{containers: [{BAD}]}}}}", [2, 3]),
    "not known": ("PyTorchJob", "kubeflow.org/v1", f"pytorchReplicaSpecs: {{Worker: {{replicas: x, template: {{{POD}}}}}}}", [0]),
    "a template": ("WorkflowTemplate", "argoproj.io/v1alpha1", f"templates: [{{container: {BAD}}}]", [0]),
    "services": ("DynamoGraphDeployment", "nvidia.com/v1alpha1", "services: {A: {replicas: 2, resources: {limits: {gpu: 1}}}, B: {resources: {limits: {gpu: 1}}}}", [2, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_replicas_above_a_pod_multiply(name: str) -> None:
    kind, api, spec, wanted = COPIES[name]
    assert [pod.copies for pod in pods(custom(kind, api, spec))] == wanted


@pytest.mark.promise("Replicas in objects of custom kinds count against pools and quotas.")
def test_replicas_of_a_custom_kind_count_against_pools_and_quotas() -> None:
    job = custom("PyTorchJob", "kubeflow.org/v1", COPIES["replicas"][2].replace("500m", "4"))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": 8}},
    }
    found = {v.rule.id: v.found for v in judge_stack([quota, job], TAINTED)}
    assert found == {
        "GPU040": "400 nvidia.com/gpu in the stack, including this workload",
        "GPU041": "8, but workloads that request 400",
    }


@pytest.mark.parametrize(("most", "over"), [({}, True), ({"maxReplicaCount": 2}, False)])
def test_what_keda_may_add_counts_against_the_pools(most: Any, over: bool) -> None:
    template = {"spec": {"containers": [yaml.safe_load(BAD.replace("500m", "1"))]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": "team"},
        "spec": {"template": template},
    }
    scaled = custom("ScaledObject", "keda.sh/v1alpha1", "scaleTargetRef: {name: serve}")
    scaled["spec"] |= most
    found = {v.rule.id for v in judge_stack([deployment, scaled], TAINTED)}
    assert found == ({"GPU040"} if over else set())
