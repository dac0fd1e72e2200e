"""Find which rules check which kinds of objects, by wrapping the examples of the rules.

Each rule has an example that breaks it. For each kind with pods, the pod of the example is put
where this kind has its pods. A rule judges the kind if it still finds the fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from .parameters import context_by
from .rules import EXAMPLES, RULES, Context, NodeTaint, PoolFacts, evaluate, evaluate_stack
from .rules.pod_spec import find_pod
from .rules.unknown import mapping

Json = dict[str, Any]
FACTS: Final = Context(pools=(PoolFacts("a100", 8, (NodeTaint("nvidia.com/gpu", "present"),)),))
"""The cluster of all examples: a pool with 8 GPUs per node and the taint that GPU nodes have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects with pods.

    Attributes:
        api: Its `apiVersion`.
        name: Its `kind`.
        spec: Function that makes the object's spec of a pod template.
    """

    api: str
    name: str
    spec: Callable[[Json], Json]


def _template(**fields: Any) -> Callable[[Json], Json]:
    return lambda template: {**fields, "template": template}


def _argo(template: Json) -> Json:
    spec = template["spec"]
    pod = {key: value for key, value in spec.items() if key not in ("containers", "initContainers")}
    (container, *more) = spec["containers"]
    step = {**pod, "name": "main", "container": container, "sidecars": more}
    if "initContainers" in spec:
        step["initContainers"] = spec["initContainers"]
    return {"entrypoint": "main", "templates": [{**step, "metadata": template["metadata"]}]}


def _ray(template: Json) -> Json:
    return {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "template": template}]}


def _kubeflow(field: str) -> Callable[[Json], Json]:
    return lambda template: {field: {"Worker": {"replicas": 1, "template": template}}}


KINDS: Final = (
    Kind("v1", "Pod", lambda template: template["spec"]),
    Kind("apps/v1", "Deployment", _template()),
    Kind("apps/v1", "StatefulSet", _template()),
    Kind("apps/v1", "DaemonSet", _template()),
    Kind("apps/v1", "ReplicaSet", _template()),
    Kind("batch/v1", "Job", _template()),
    Kind("batch/v1", "CronJob", lambda template: {"jobTemplate": {"spec": {"template": template}}}),
    Kind("batch.volcano.sh/v1alpha1", "Job", lambda each: {"tasks": [_template(replicas=1)(each)]}),
    Kind("kubeflow.org/v1", "PyTorchJob", _kubeflow("pytorchReplicaSpecs")),
    Kind("kubeflow.org/v2beta1", "MPIJob", _kubeflow("mpiReplicaSpecs")),
    Kind("kubeflow.org/v1", "Notebook", _template()),
    Kind(
        "trainer.kubeflow.org/v1alpha1",
        "TrainingRuntime",
        lambda each: {
            "template": {
                "spec": {
                    "replicatedJobs": [{"name": "a", "template": {"spec": {"template": each}}}]
                }
            }
        },
    ),
    Kind("ray.io/v1", "RayCluster", _ray),
    Kind("ray.io/v1", "RayJob", lambda template: {"rayClusterSpec": _ray(template)}),
    Kind("ray.io/v1", "RayService", lambda template: {"rayClusterConfig": _ray(template)}),
    Kind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        lambda each: {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": each}}}]},
    ),
    Kind(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        lambda template: {"leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    ),
    Kind("argoproj.io/v1alpha1", "Workflow", _argo),
    Kind("argoproj.io/v1alpha1", "WorkflowTemplate", _argo),
    Kind("argoproj.io/v1alpha1", "Rollout", _template(replicas=1)),
    Kind("serving.knative.dev/v1", "Service", _template()),
    Kind("serving.kserve.io/v1beta1", "InferenceService", lambda each: {"predictor": each["spec"]}),
    Kind("serving.kserve.io/v1alpha1", "ServingRuntime", lambda each: each["spec"]),
)


@cache
def judged_by(kind: Kind) -> frozenset[str]:
    """Return the ids of the rules that find the fault of their example in the pods of a kind."""
    return frozenset(
        id_
        for id_, template in _templates().items()
        if id_ in _found(_object(kind, template), context_by(EXAMPLES[id_].settings, FACTS))
    )


def without_pods() -> Mapping[str, set[str]]:
    """Return the rules that don't check pods alone, by the kind in the rule's example."""
    kinds: dict[str, set[str]] = {}
    for id_ in RULES.keys() - set[str]().union(*map(judged_by, KINDS)):
        manifest = yaml.safe_load(EXAMPLES[id_].failing)
        kinds.setdefault(_named(manifest), set()).add(id_)
    return dict(sorted(kinds.items()))


def _named(manifest: Json) -> str:
    items = manifest.get("items")
    if isinstance(items, list):
        return " with ".join(sorted({_named(item) for item in items}))
    return f"{manifest.get('kind', '')} ({manifest.get('apiVersion', '')})"


def _object(kind: Kind, template: Json) -> Json:
    template = copy.deepcopy(template)
    metadata: Json = {"name": "train", "namespace": template["metadata"].pop("namespace", "")}
    if kind.name == "Pod":
        metadata |= template["metadata"]
    spec = kind.spec(template)
    return {"apiVersion": kind.api, "kind": kind.name, "metadata": metadata, "spec": spec}


def _templates() -> dict[str, Json]:
    """Return the pod of each rule's example, as a template, for rules whose example has one pod."""
    templates: dict[str, Json] = {}
    for id_, example in EXAMPLES.items():
        manifest = yaml.safe_load(example.failing)
        if (pod := find_pod(manifest)) is None:
            continue
        metadata = {**manifest.get("metadata", {}), **pod.metadata}
        metadata["annotations"] = {
            **manifest.get("metadata", {}).get("annotations", {}),
            **mapping(pod.metadata.get("annotations")),
        }
        templates[id_] = {"metadata": metadata, "spec": dict(pod.spec)}
    return templates


def _found(manifest: Json, context: Context) -> set[str]:
    violations = [*evaluate(manifest, context), *evaluate_stack([manifest], context)]
    return {violation.rule.id for violation in violations}


def table() -> str:
    """Return the Markdown table of the kinds and of the rules that check them."""
    of_pods = judged_by(KINDS[0])
    rows = ["| kind | rules |", "| --- | --- |"]
    for kind in KINDS:
        rules = judged_by(kind)
        more, fewer = sorted(rules - of_pods), sorted(of_pods - rules)
        kinds_text = ", ".join(sorted(of_pods)) if kind is KINDS[0] else "as Pod"
        kinds_text += f"; also {', '.join(more)}" if more else ""
        kinds_text += f"; not {', '.join(fewer)}" if fewer else ""
        rows.append(f"| {kind.name} ({kind.api}) | {kinds_text} |")
    rows += [f"| {name} | {', '.join(sorted(ids))} |" for name, ids in without_pods().items()]
    return "\n".join(rows)
