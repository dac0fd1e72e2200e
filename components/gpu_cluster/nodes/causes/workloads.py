"""Explain why Deployments, DaemonSets and Jobs are not ready.

Sources: helm v3.18.6 pkg/kube/ready.go (when Helm counts a workload as ready); kubernetes v1.34.4
pkg/controller/deployment/util/deployment_util.go (condition `ReplicaFailure`),
pkg/controller/controller_utils.go (event `FailedCreate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.managers import HELM_NAMESPACE, HELM_RELEASE
from gpu_cluster.nodes.causes.cause import Cause
from gpu_cluster.nodes.causes.node_fit import NAME
from gpu_cluster.nodes.causes.offers import is_ready
from gpu_cluster.nodes.causes.pod import CREATE, explain_refusal, refusals_of
from gpu_cluster.nodes.causes.read import Reader, explained
from gpu_rules.printable import printable, shortened

EXPLAINED = 10
"""Maximum number of pods that are explained; further pods are only counted."""
NAMED = 3
"""Maximum number of pods or causes that one line names."""
APPS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
"""Kinds of workloads in the charts of GPU software, with the names of their resources."""


def is_late(item: Json) -> bool:
    """Return whether a Deployment, a DaemonSet or a Job is not ready yet."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    if item.get("kind") == "Job":
        return int(status.get("succeeded") or 0) < int(spec.get("completions") or 1)
    if int(status.get("observedGeneration") or 0) < int(item["metadata"].get("generation") or 0):
        return True
    if item.get("kind") == "DaemonSet":
        desired = int(status.get("desiredNumberScheduled") or 0)
        names = ("updatedNumberScheduled", "numberReady")
    else:
        replicas = spec.get("replicas")
        desired = 1 if replicas is None else int(replicas)
        names = ("updatedReplicas", "readyReplicas")
    return any(int(status.get(name) or 0) < desired for name in names)


def pods_of(item: Json, pods: Iterable[Json]) -> list[Json]:
    """Return the pods that a workload's selector matches."""
    match_labels = ((item.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return [
        pod
        for pod in pods
        if match_labels and match_labels.items() <= (pod["metadata"].get("labels") or {}).items()
    ]


def progress(item: Json) -> str:
    """Return how many pods of a workload are ready: `DaemonSet a/b: 1 of 3 pods ready`."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    kind, meta = str(item.get("kind") or ""), item["metadata"]
    names = {
        "DaemonSet": ("numberReady", status.get("desiredNumberScheduled")),
        "Job": ("succeeded", spec.get("completions")),
    }
    ready, desired = names.get(kind, ("readyReplicas", spec.get("replicas")))
    place = printable(f"{kind} {meta['namespace']}/{meta['name']}", NAME)
    done = "finished" if kind == "Job" else "ready"
    return f"{place}: {status.get(ready) or 0} of {1 if desired is None else desired} pods {done}"


def grouped(causes: Iterable[tuple[str, Cause]]) -> list[str]:
    """Return one line per cause, with the names of the first pods that have the cause.

    Args:
        causes: Names of pods, each with the cause why the pod does not run.
    """
    names: dict[str, list[str]] = {}
    for name, cause in causes:
        names.setdefault(str(cause), []).append(name)
    return [
        f"pod{'s' if len(pod_names) > 1 else ''} {shortened(pod_names, NAMED)}: {cause}"
        for cause, pod_names in names.items()
    ]


async def lines_of(client: Client, late: Sequence[Json]) -> list[str]:
    """Return why workloads of one namespace of the stack are not ready, a line for each cause.

    A workload without a known cause gets a line with the number of its pods.
    """
    if not late:
        return []
    namespace = str(late[0]["metadata"]["namespace"])
    reader = Reader(client)
    pods = await reader.listed(f"namespaces/{namespace}/pods")
    refusals = refusals_of(await reader.events(namespace, reason=CREATE), trusted=True)
    cause_lines: list[str] = []
    for item in late:
        waiting = [pod for pod in pods_of(item, pods) if not is_ready(pod)][:EXPLAINED]
        causes = await gather(lambda pod: explained(client, pod), waiting)
        pod_names = [printable(str(pod["metadata"]["name"]), NAME) for pod in waiting]
        lines = grouped((n, c) for n, c in zip(pod_names, causes, strict=True) if c)
        cause = explain_refusal(item, refusals)
        cause_lines += lines or [str(cause) if cause else progress(item)]
    return list(dict.fromkeys(cause_lines))


async def late_of_release(client: Client, namespace: str, name: str) -> list[Json]:
    """Return the workloads of a Helm release, and Jobs of Helm hooks, that are not ready.

    Helm annotates all objects of a release, but not those of its hooks (helm v3.18.6
    pkg/action/validate.go, `setMetadataVisitor`).
    """
    reader = Reader(client)
    items = []
    for kind, resource in APPS.items():
        listed = await reader.listed(f"namespaces/{namespace}/{resource}", base="/apis/apps")
        # In lists of the API server, items have no field `kind`.
        items += [
            {**item, "kind": kind} for item in listed if _belongs_to_release(item, namespace, name)
        ]
    jobs = await reader.listed(f"namespaces/{namespace}/jobs", base="/apis/batch")
    items += [{**job, "kind": "Job"} for job in jobs if "helm.sh/hook" in _annotations_of(job)]
    return [item for item in items if is_late(item)]


def _belongs_to_release(item: Json, namespace: str, name: str) -> bool:
    notes = _annotations_of(item)
    return notes.get(HELM_RELEASE) == name and notes.get(HELM_NAMESPACE) == namespace


def _annotations_of(item: Json) -> Json:
    notes: Json = item["metadata"].get("annotations") or {}
    return notes
