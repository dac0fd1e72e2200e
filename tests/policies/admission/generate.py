"""Hypothesis strategies for manifests of every kind that a rule checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from gpu_rules.rules.observed import as_submitted
from tests.policies.admission.cluster import CONTEXTS, GPU, LABEL
from tests.policies.admission.generate_ordinary import ordinary_pods
from tests.policies.admission.generate_rare import RARE
from tests.policies.admission.generate_specs import CORE, MIG, VARIABLE, annotated, specs

Json = dict[str, Any]

_WORKLOADS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "PodTemplate": "v1",
    "ReplicationController": "v1",
}
_ANY_WORKLOAD = st.sampled_from(list(_WORKLOADS))
_STRATEGIES = st.sampled_from(
    [
        None,
        {},
        {"type": "Recreate"},
        {"type": "RollingUpdate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
        {"rollingUpdate": {"maxSurge": "0%"}},
        {"rollingUpdate": {"maxSurge": 1}},
        {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
        {"rollingUpdate": {"maxUnavailable": 1}},
        {"rollingUpdate": {"maxUnavailable": "34%", "maxSurge": 1}},
        {"rollingUpdate": {"maxUnavailable": "1%", "maxSurge": "0%"}},
        {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}},
    ]
)


@st.composite
def _workload(draw: st.DrawFn, kind: str, namespace: str) -> Json:
    labels = {"app": "a"}
    spec = draw(specs())
    if draw(st.integers(0, 9)) == 0:
        spec["overhead"] = {GPU: draw(st.integers(0, 2)), "cpu": "100m"}
    template: Json = {"metadata": {"labels": labels}, "spec": spec}
    if kind == "DaemonSet" and draw(st.booleans()):
        path = draw(st.sampled_from(["/opt/cni/bin", "/etc/cni/net.d/x", "/opt"]))
        spec.setdefault("volumes", []).append({"name": "cni", "hostPath": {"path": path}})
    template["metadata"] |= draw(annotated())
    base: Json = {
        "apiVersion": _WORKLOADS[kind],
        "kind": kind,
        "metadata": {"name": "a", "namespace": namespace, **draw(annotated())},
    }
    match kind:
        case "PodTemplate":
            return {**base, "template": template}
        case "ReplicationController":
            return {**base, "spec": {"selector": labels, "template": template}}
        case "Job" | "CronJob":
            spec["restartPolicy"] = "Never"
            job: Json = {"spec": {"template": template}}
            if draw(st.booleans()):
                job["spec"]["activeDeadlineSeconds"] = 60
            if draw(st.booleans()):
                job["spec"]["backoffLimit"] = draw(st.sampled_from([0, 6, 10, 11]))
            if kind == "Job":
                return {**base, **job}
            return {**base, "spec": {"schedule": "@daily", "jobTemplate": job}}
    body: Json = {"selector": {"matchLabels": labels}, "template": template}
    strategy = draw(_STRATEGIES) if kind == "Deployment" else None
    if strategy is not None:
        body["strategy"] = strategy
    if kind == "Deployment" and draw(st.booleans()):
        body["replicas"] = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 10, 20]))
    return {**base, "spec": body}


@st.composite
def _pod(draw: st.DrawFn, namespace: str) -> Json:
    metadata: Json = {"name": "a", "namespace": namespace, **draw(annotated())}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": draw(specs())}
    if draw(st.integers(0, 9)) == 0:
        owner = {"apiVersion": "apps/v1", "name": "a", "uid": "0"}
        kind, controller = draw(st.sampled_from(["DaemonSet", "ReplicaSet"])), draw(st.booleans())
        metadata["ownerReferences"] = [{**owner, "kind": kind, "controller": controller}]
        # A pod with a uid stands for one that a controller creates: for the rules, it was read from
        # a cluster. Controllers name no node.
        metadata["uid"] = "1"
        return dict(as_submitted(made))
    return made


_LIMITED = st.dictionaries(
    st.sampled_from([GPU, MIG, CORE, "nvidia.com/gpus", "rdma/hca", "cpu"]),
    st.sampled_from([0, 0, 1, 2, 8, "0", "1k"]),
    max_size=2,
)


@st.composite
def _limit_range(draw: st.DrawFn, namespace: str) -> Json:
    kind = draw(st.sampled_from(["Container", "Container", "Pod", "PersistentVolumeClaim"]))
    item: Json = {"type": kind}
    if kind == "PersistentVolumeClaim":
        item["max"] = {"storage": "1Gi"}
    else:
        fields = ("max", "min", *(("default", "defaultRequest") if kind == "Container" else ()))
        same = draw(_LIMITED)
        for field in fields:
            if draw(st.booleans()):
                item[field] = same if draw(st.booleans()) else draw(_LIMITED)
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"limits": [item]},
    }


@st.composite
def _quota(draw: st.DrawFn, namespace: str) -> Json:
    keys = st.sampled_from(
        [
            *(f"requests.{GPU}", f"limits.{GPU}", GPU, f"requests.{MIG}", f"limits.{MIG}"),
            *("limits.nvidia.com/gpumem", "nvidia.com/gpumem", "requests.nvidia.com/gpumem"),
            *("limits.nvidia.com/gpus", "nvidia.com/gpus", "limits.cpu", "rdma/hca", "cpu"),
        ]
    )
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"hard": draw(st.dictionaries(keys, st.integers(0, 8), max_size=3))},
    }


@st.composite
def _values(draw: st.DrawFn, namespace: str) -> Json:
    kind = draw(st.sampled_from(["ConfigMap", "Secret"]))
    given = draw(
        st.dictionaries(
            st.sampled_from([VARIABLE, VARIABLE, "A"]),
            st.sampled_from(["all", "0", "none", "void", ""]),
            max_size=1,
        )
    )
    made = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": namespace, **draw(annotated())},
    }
    if kind == "ConfigMap":
        return {**made, "data": given}
    if draw(st.booleans()):
        made["stringData"] = given
    if draw(st.booleans()):
        made["data"] = {VARIABLE: draw(st.sampled_from(["YWxs", "bm9uZQ==", "dm9pZA==", "none"]))}
    return made


@st.composite
def _namespace(draw: st.DrawFn, guarded: str) -> Json:
    labels = {LABEL: guarded}
    level = draw(st.sampled_from([None, "privileged", "baseline", "restricted"]))
    if level is not None:
        labels["pod-security.kubernetes.io/enforce"] = level
    name = draw(st.sampled_from(["team-a", "gpu-system", "gpu-operator"]))
    metadata = {"name": name, "labels": labels, **draw(annotated())}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _somewhere(
    kind: Callable[[str], st.SearchStrategy[Json]],
) -> Callable[[], st.SearchStrategy[Json]]:
    """Return a strategy for objects of a kind in one of the namespaces in `CONTEXTS`."""
    return lambda: st.sampled_from(list(CONTEXTS)).flatmap(kind)


_any_pod = _somewhere(_pod)
_any_ordinary_pod = _somewhere(
    lambda space: st.sampled_from([space, "whole"]).flatmap(ordinary_pods)
)
SHARES: Final[Mapping[Callable[[], st.SearchStrategy[Json]], int]] = {
    _any_pod: 18,
    _any_ordinary_pod: 8,
    _somewhere(lambda space: _workload("Deployment", space)): 6,
    _somewhere(lambda space: _workload("DaemonSet", space)): 4,
    _somewhere(lambda space: _ANY_WORKLOAD.flatmap(lambda kind: _workload(kind, space))): 12,
    _somewhere(_limit_range): 4,
    _somewhere(_quota): 4,
    _somewhere(_values): 4,
    _somewhere(_namespace): 4,
    **RARE,
}
"""Strategies for objects of every kind that a rule checks, each with its share of the objects.

Hypothesis itself prefers some of several strategies: it varies the examples that it has.
"""


def manifests() -> st.SearchStrategy[Json]:
    """Return a strategy for objects of every kind that a rule checks."""
    return st.one_of([strategy() for strategy in SHARES])


def pods() -> st.SearchStrategy[Json]:
    """Return a strategy for pods."""
    return st.one_of(_any_pod(), _any_ordinary_pod())
