"""Exceptions to the general reading of custom resources, by kind.

`gpu_rules.rules.custom` reads custom resources of all kinds in the same way. This module lists only
the kinds that it would misread. The comment at each kind names the source of the exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .unknown import mapping, sequence, text

_OFFERS: Final = frozenset(
    {
        # kubernetes-sigs/kueue apis/kueue: quotas and labels of queues.
        *(("kueue.x-k8s.io", kind) for kind in ("ClusterQueue", "Cohort", "LocalQueue")),
        *(("kueue.x-k8s.io", kind) for kind in ("ResourceFlavor", "ProvisioningRequestConfig")),
        ("config.kueue.x-k8s.io", "Configuration"),
        # volcano-sh/apis pkg/apis/scheduling, run-ai: capacity of queues, minimum of a job.
        ("scheduling.volcano.sh", "Queue"),
        ("scheduling.volcano.sh", "PodGroup"),
        ("scheduling.run.ai", "Queue"),
        ("scheduling.x-k8s.io", "ElasticQuota"),
        ("scheduling.x-k8s.io", "PodGroup"),
        # kubernetes-sigs/karpenter pkg/apis/v1: limits of the nodes that Karpenter may create.
        *(("karpenter.sh", kind) for kind in ("NodePool", "NodeClaim", "NodeOverlay")),
        # GoogleCloudPlatform/kubernetes-engine-samples: GPUs of nodes that GKE may create.
        ("cloud.google.com", "ComputeClass"),
        # NVIDIA/gpu-operator api/nvidia: the settings of the GPU stack itself.
        *(("nvidia.com", kind) for kind in ("ClusterPolicy", "NVIDIADriver", "GPUCluster")),
    }
)
"""Groups and kinds whose numbers of GPUs are what there is, not what is requested."""

_COMPLETED: Final = frozenset(
    {
        # kserve/kserve pkg/apis/serving: an InferenceService adds fields to its runtime's pods.
        *(("serving.kserve.io", kind) for kind in ("ServingRuntime", "ClusterServingRuntime")),
        ("serving.kserve.io", "LLMInferenceServiceConfig"),
        ("serving.kserve.io", "InferenceService"),
        # kubeflow/trainer pkg/apis/trainer: a TrainJob gives only some fields of its pods, and the
        # runtime that it references gives the others.
        *(("trainer.kubeflow.org", kind) for kind in ("TrainingRuntime", "ClusterTrainingRuntime")),
        ("trainer.kubeflow.org", "TrainJob"),
        # argoproj/argo-workflows: a workflow adds fields to the templates that it references.
        *(("argoproj.io", kind) for kind in ("WorkflowTemplate", "ClusterWorkflowTemplate")),
        # tektoncd/pipeline pkg/apis/pipeline: a TaskRun or PipelineRun adds fields to its task.
        *(("tekton.dev", kind) for kind in ("Task", "ClusterTask", "Pipeline")),
        # InftyAI/llmaz api: the pods of a Playground get fields of its model and its runtime.
        *(("llmaz.io", "OpenModel"), ("inference.llmaz.io", "BackendRuntime")),
        ("inference.llmaz.io", "Playground"),
        # sgl-project/ome pkg/apis: an InferenceService adds fields to its runtime's pods.
        *(("ome.io", kind) for kind in ("ServingRuntime", "ClusterServingRuntime")),
        ("ome.io", "InferenceService"),
    }
)
"""Groups and kinds to which another object adds fields of pods, such as tolerations."""

_RUN_NOTHING: Final = (
    _COMPLETED
    - {("serving.kserve.io", "InferenceService"), ("trainer.kubeflow.org", "TrainJob")}
    - {("inference.llmaz.io", "Playground"), ("ome.io", "InferenceService")}
) | {
    ("argoproj.io", kind) for kind in ("CronWorkflow", "Workflow", "Sensor", "WorkflowEventBinding")
}
"""Groups and kinds whose pods don't run all the time, or not by themselves."""

_NEAREST: Final = frozenset(
    {
        # kserve/kserve pkg/apis/serving/v1alpha2: the field `prefill` has its own replica count.
        ("serving.kserve.io", "LLMInferenceService"),
    }
)
"""Groups and kinds where numbers of replicas above each other don't multiply."""

PATCH: Final = "podSpecPatch"
"""Field with a patch of pods: argoproj/argo-workflows pkg/apis/workflow/v1alpha1."""

PROFILE: Final = "resourceProfile"
"""Field that names resources by a profile of the platform: substratusai/kubeai api/k8s/v1."""

CLAIMS: Final = "draResources"
"""List of claims for devices: NVIDIA/k8s-nim-operator api/apps/v1alpha1 DRAResource."""
CLAIM_NAMES: Final = ("resourceClaimName", "resourceClaimTemplateName")
MAIN: Final = ("extraPodSpec", "mainContainer")
"""Fields beside a request of its main container: ai-dynamo/dynamo deploy ExtraPodSpec."""
GPU_TYPE: Final = "gpuType"
"""Field beside `gpu` with the resource that it counts: ai-dynamo/dynamo deploy ResourceItem."""


def _kind_key(manifest: Mapping[str, object]) -> tuple[str, str]:
    group = text(manifest.get("apiVersion")).rpartition("/")[0]
    return group, text(manifest.get("kind"))


def offers(manifest: Mapping[str, object]) -> bool:
    """Return whether an object's numbers of GPUs are a capacity or quota, not a request."""
    return _kind_key(manifest) in _OFFERS


def is_completed(manifest: Mapping[str, object]) -> bool:
    """Return whether an object's pods get more fields, such as tolerations, from another object."""
    return _kind_key(manifest) in _COMPLETED


def runs_nothing(manifest: Mapping[str, object]) -> bool:
    """Return whether an object runs pods only at some times, or only if another object uses it."""
    return _kind_key(manifest) in _RUN_NOTHING


def counts_the_nearest(manifest: Mapping[str, object]) -> bool:
    """Return whether only the innermost replica count around a pod counts for the object's kind."""
    return _kind_key(manifest) in _NEAREST


def group_size(value: Mapping[str, object], inner: Mapping[str, object]) -> int:
    """Return how many pods an object creates from one pod template for each replica.

    A LeaderWorkerSet makes groups of `size` pods, one of which is the leader (kubernetes-sigs/lws
    api/leaderworkerset/v1).

    Args:
        value: Mapping that contains the template, such as a LeaderWorkerSet's.
        inner: The template, or another mapping in `value`.
    """
    size = value.get("size")
    if inner is not value.get("workerTemplate") or not isinstance(size, int):
        return 1
    return max(size - ("leaderTemplate" in value), 0)


def claimed_devices(claim: Mapping[str, object]) -> str:
    """Return the DeviceClasses in a NIMService's claim, joined by dots; empty if there are none."""
    devices = sequence(mapping(claim.get("claimCreationSpec")).get("devices"))
    classes = (text(mapping(device).get("deviceClassName")) for device in devices)
    return ".".join(filter(None, classes))
