"""Pods as a cluster has them: what controllers, admission and the kubelet add to their template.

Each function names the source of what it adds, of Kubernetes v1.36.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

OWNERS: Final = ("DaemonSet", "Job", "ReplicaSet", "StatefulSet")
UID: Final = "0b5b8f0e-7c3b-4a52-9d0e-8f5b7f0c9a11"
STORED: Final = {
    "uid": UID,
    "resourceVersion": "81234",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
"""Metadata that an API server gives to each object that it stores."""
NODE: Final = "gpu-1"
_API: Final = {"Job": "batch/v1"}
_SECONDS: Final = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}


def written(owner: str, spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that an author writes: a pod, or a workload with this pod template.

    Args:
        owner: Kind of the workload; empty for a pod.
        spec: Spec of the pod.
        metadata: Labels, annotations and namespace of the pod.
    """
    pod_spec: dict[str, Any] = copy.deepcopy(dict(spec))
    own = copy.deepcopy({k: v for k, v in metadata.items() if k in ("labels", "annotations")})
    named = {"name": "train", "namespace": metadata.get("namespace", "team")}
    if not owner:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**own, **named}, "spec": pod_spec}
    body: dict[str, Any] = {"template": {"metadata": own, "spec": pod_spec}}
    if owner == "Job":
        pod_spec.setdefault("restartPolicy", "Never")
    if owner == "StatefulSet":
        body |= {"serviceName": "train"}
    api = _API.get(owner, "apps/v1")
    return {"apiVersion": api, "kind": owner, "metadata": named, "spec": body}


def observed(
    owner: str, spec: Mapping[str, Any], metadata: Mapping[str, Any], *, tolerates: bool = False
) -> dict[str, Any]:
    """Return the running pod of a workload, with all that the system wrote into it.

    Args:
        owner: Kind of the workload; empty for a pod.
        spec: Spec of the pod.
        metadata: Labels, annotations and namespace of the pod.
        tolerates: Whether the API server runs the plugin ExtendedResourceToleration.
    """
    pod = written("", spec, metadata)
    pod["metadata"] |= STORED
    pod["spec"].setdefault("restartPolicy", "Never" if owner == "Job" else "Always")
    if owner:
        _by_controller(owner, pod)
    _by_admission(pod, tolerates)
    _by_default(pod)
    _bound(pod)
    return pod


def workload(owner: str, spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload as an API server stores it, with its status."""
    stored = written(owner, spec, metadata)
    stored["metadata"] |= {
        **STORED,
        "generation": 1,
        "managedFields": [_managed(stored["apiVersion"])],
        "annotations": {"deprecated.daemonset.template.generation": "1"},
    }
    stored["spec"]["template"]["metadata"]["creationTimestamp"] = None
    stored["status"] = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}
    return stored


def listed(*objects: Any) -> dict[str, Any]:
    """Return the list that `kubectl get -o json` prints."""
    metadata = {"resourceVersion": ""}
    return {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": list(objects)}


def _by_controller(owner: str, pod: dict[str, Any]) -> None:
    """Add what the workload's controller writes.

    Sources: pkg/controller/controller_utils.go GetPodFromTemplate;
    pkg/controller/daemon/util/daemonset_util.go AddOrUpdateDaemonPodTolerations and
    ReplaceDaemonSetPodNodeNameNodeAffinity; pkg/controller/statefulset/stateful_set_utils.go
    initIdentity; pkg/controller/job/indexed_job_utils.go.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    labels = metadata.setdefault("labels", {})
    metadata["ownerReferences"] = [
        {
            "apiVersion": _API.get(owner, "apps/v1"),
            "kind": owner,
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    match owner:
        case "DaemonSet":
            metadata |= {"name": "train-x7k2p", "generateName": "train-"}
            labels |= {"controller-revision-hash": "5d4", "pod-template-generation": "1"}
            _on_node(spec)
            keys = {"not-ready": "NoExecute", "unreachable": "NoExecute"}
            keys |= dict.fromkeys(
                ("disk-pressure", "memory-pressure", "pid-pressure"), "NoSchedule"
            )
            keys["unschedulable"] = "NoSchedule"
            if spec.get("hostNetwork"):
                keys["network-unavailable"] = "NoSchedule"
            spec.setdefault("tolerations", []).extend(
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
                for key, effect in keys.items()
            )
        case "Job":
            metadata |= {"name": "train-0-h7xzq", "generateName": "train-0-"}
            labels |= {"batch.kubernetes.io/job-name": "train", "job-name": "train"}
            labels |= {"batch.kubernetes.io/controller-uid": UID, "controller-uid": UID}
            metadata["finalizers"] = ["batch.kubernetes.io/job-tracking"]
            index = "batch.kubernetes.io/job-completion-index"
            metadata.setdefault("annotations", {})[index] = "0"
            field = {
                "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{index}']"}
            }
            for container in spec["containers"]:
                variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
                container["env"] = [*container.get("env", ()), variable]
        case "ReplicaSet":
            metadata |= {"name": "train-6c5d-w9zls", "generateName": "train-6c5d-"}
            labels["pod-template-hash"] = "6c5d"
        case "StatefulSet":
            metadata |= {"name": "train-0", "generateName": "train-"}
            labels |= {"statefulset.kubernetes.io/pod-name": "train-0"}
            labels |= {"apps.kubernetes.io/pod-index": "0", "controller-revision-hash": "t-1"}
            spec |= {"hostname": "train-0", "subdomain": "train"}
            claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-train-0"}}
            spec["volumes"] = [*spec.get("volumes", ()), claim]


def _on_node(spec: dict[str, Any]) -> None:
    """Select a DaemonSet pod's node, by the affinity that its controller writes."""
    affinity = spec.setdefault("affinity", {})
    required = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]}
    )
    field = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [field]} for term in required["nodeSelectorTerms"]
    ]


def _by_admission(pod: dict[str, Any], tolerates: bool) -> None:
    """Add what the default admission plugins write.

    Sources: plugin/pkg/admission/serviceaccount, limitranger, priority, defaulttolerationseconds,
    and extendedresourcetoleration.
    """
    spec = pod["spec"]
    name = "kube-api-access-v9x2q"
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    root = {
        "configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    }
    projected = {"defaultMode": 420, "sources": [token, root]}
    spec["volumes"] = [*spec.get("volumes", ()), {"name": name, "projected": projected}]
    mount = {
        "name": name,
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    asked: set[str] = set()
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
        resources = container.setdefault("resources", {})
        limits, requests = resources.setdefault("limits", {}), resources.setdefault("requests", {})
        # Requests that are missing are those of the limits; a LimitRange adds cpu and memory.
        for key, amount in limits.items():
            requests.setdefault(key, amount)
        asked |= {key for key in limits if "/" in key}
        for key, amount in {"cpu": "500m", "memory": "512Mi"}.items():
            limits.setdefault(key, amount)
            requests.setdefault(key, amount)
    text = "LimitRanger plugin set: cpu, memory request for container cuda"
    pod["metadata"].setdefault("annotations", {})["kubernetes.io/limit-ranger"] = text
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(each.get("key") == key for each in tolerations):
            tolerations.append({"key": key, **_SECONDS})
    for key in sorted(asked) if tolerates else ():
        tolerations.append({"key": key, "operator": "Exists"})
    spec |= {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


def _by_default(pod: dict[str, Any]) -> None:
    """Add the defaults of the API (pkg/apis/core/v1/defaults.go)."""
    spec = pod["spec"]
    defaults: dict[str, Any] = {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }
    pod["spec"] = spec = {**defaults, **spec}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
    for volume in spec["volumes"]:
        if "hostPath" in volume:
            volume["hostPath"] = {"type": "", **volume["hostPath"]}


def _managed(api_version: str, manager: str = "kubectl", **fields: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": fields or {}},
    }


def _bound(pod: dict[str, Any]) -> None:
    """Add what scheduler and kubelet write: node, status, and the fields that they own."""
    spec, metadata = pod["spec"], pod["metadata"]
    spec["nodeName"] = NODE
    metadata["managedFields"] = [
        _managed("v1", "kube-controller-manager", **{"f:nodeName": {}}),
        _managed("v1", "kubelet"),
    ]
    # Schedulers of HAMi and gpu-manager note the GPUs that they assign.
    metadata["annotations"] |= {
        "hami.io/vgpu-node": NODE,
        "hami.io/bind-phase": "success",
        "tencent.com/predicate-time": "1767225600",
    }
    statuses = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "sha256:1",
            "ready": True,
            "restartCount": 0,
            "allocatedResources": container["resources"].get("requests", {}),
            "resources": container["resources"],
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "volumeMounts": container["volumeMounts"],
        }
        for container in spec["containers"]
    ]
    pod["status"] = {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": "192.0.2.1",
        "podIP": "10.0.0.7",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": statuses,
        "resourceClaimStatuses": [
            {"name": claim["name"], "resourceClaimName": f"train-{claim['name']}-x2z9k"}
            for claim in spec.get("resourceClaims", ())
            if "name" in claim
        ],
    }
