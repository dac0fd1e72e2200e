"""Turn objects of the API server into the model of a running cluster. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.commands.adoption.observed import Edit, ManagedBy, ObservedNode, ObservedWorkload
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.hami import gpus_of_node
from gpu_cluster.kubernetes.labels import MANAGER
from gpu_cluster.kubernetes.managers import helm_release
from gpu_cluster.nodes.applied import PREFIX
from gpu_cluster.settings.nodes.taint import Taint
from gpu_rules.kube.gpu_resources import GPU, GPU_SHARED, MIG, VCUDA_CORE
from gpu_rules.kube.quantity import is_equal, read_count
from gpu_rules.kube.taints import NodeTaint, TaintEffect

# Prefixes of labels that Kubernetes, NVIDIA's software and Node Feature Discovery write.
_REPORTED = re.compile(
    r"((.+\.)?(kubernetes\.io|k8s\.io|k3s\.io|rke2\.io|nvidia\.com)|gpu-cluster)/.*",
    re.DOTALL,
)
# Labels with one of these prefixes that people set by hand, as NVIDIA's documentation describes.
_WRITTEN = re.compile(
    r"nvidia\.com/(gpu|gpu\.workload\.config|device-plugin\.config)"
    r"|node-role\.kubernetes\.io/.+|node-restriction\.kubernetes\.io/.+",
    re.DOTALL,
)
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
# Keys of taints that Kubernetes and cloud controllers set and clear.
_TRANSIENT = re.compile(
    r"(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io"
    r"|startup-taint\.cluster-autoscaler\.kubernetes\.io)/.*"
    r"|(ToBeDeleted|DeletionCandidate)OfClusterAutoscaler|ToBeDeletedByClusterAutoscaler",
    re.DOTALL,
)
_EFFECTS = {str(effect): effect for effect in TaintEffect}
_RESOURCES = (GPU, GPU_SHARED, VCUDA_CORE)
_CLOUD = re.compile(r"(aws|gce|azure|oci|ocid1|ibm|openstack|digitalocean|linode|hcloud)\b")

# Defaults that the API server adds to a pod template (k8s.io/kubernetes
# pkg/apis/core/v1/defaults.go, pkg/apis/apps/v1/defaults.go).
_POD_DEFAULTS: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: Mapping[str, Any] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
# Annotations that kubectl, controllers, Helm, Argo CD or Flux write for their own use.
_NOTES = (
    "deprecated.daemonset.template.generation",
    "deployment.kubernetes.io/revision",
    "kubectl.kubernetes.io/last-applied-configuration",
    MANAGER,
)
# Fields of a workload's spec whose values are quantities, which the API server rewrites
# (k8s.io/api v0.36.3 core/v1/types.go).
_QUANTITY = re.compile(r".*\.((resources\.(limits|requests)|overhead)\..+|sizeLimit|divisor)")


def node(item: Json) -> ObservedNode:
    """Return the model of a Node.

    Raises:
        IllFormed: The node's name is invalid.
    """
    metadata, status = item["metadata"], item.get("status") or {}
    labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    written = {key: value for key, value in labels.items() if _is_written(key, value)}
    info = status.get("nodeInfo") or {}
    return ObservedNode(
        name=grammar.node(metadata["name"]),
        address=_internal_address(status.get("addresses") or []),
        labels=written,
        reported={key: value for key, value in labels.items() if key not in written},
        taints=tuple(_parse_taints((item.get("spec") or {}).get("taints") or [])),
        advertised=dict(_advertised_gpus(status.get("capacity") or {})),
        registered=gpus_of_node(item),
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        ),
        control_plane=any(key in labels for key in _CONTROL_PLANE),
        engine=str(info.get("containerRuntimeVersion") or ""),
        system=str(info.get("osImage") or ""),
        provider=_provider_of(item),
        is_ours=any(key.startswith(PREFIX) for key in metadata.get("annotations") or {}),
    )


def _is_written(key: str, value: str) -> bool:
    """Return True if a person or an unrecognized program set a label, False if known software did.

    The GPU Operator sets its labels `nvidia.com/gpu.deploy.…` to true; people set them to false.
    """
    if key.startswith("nvidia.com/gpu.deploy."):
        return value == "false"
    return bool(_WRITTEN.fullmatch(key)) or not _REPORTED.fullmatch(key)


def _internal_address(addresses: Iterable[Json]) -> str:
    internal = (
        address.get("address") for address in addresses if address.get("type") == "InternalIP"
    )
    return str(next(internal, ""))


def _parse_taints(taints: Iterable[Json]) -> Iterator[Taint]:
    for taint in taints:
        present = NodeTaint.of(taint)
        effect = _EFFECTS.get(present.effect)
        if effect and not _TRANSIENT.fullmatch(present.key):
            yield Taint.model_construct(key=present.key, value=present.value, effect=effect)


def _advertised_gpus(capacity: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, amount in sorted(capacity.items()):
        if (name in _RESOURCES or name.startswith(MIG)) and (count := read_count(amount)):
            yield name, count


def _provider_of(item: Json) -> str:
    cloud = _CLOUD.match(str((item.get("spec") or {}).get("providerID") or ""))
    return cloud[1] if cloud else ""


def workload(item: Json, kind: str, software: str, managed_by: ManagedBy) -> ObservedWorkload:
    """Return the model of a DaemonSet or a Deployment.

    Raises:
        IllFormed: The name or the namespace is invalid.
    """
    return ObservedWorkload(
        what=software,
        kind=kind,
        name=grammar.name(item["metadata"]["name"]),
        namespace=grammar.namespace(item["metadata"]["namespace"]),
        managed_by=managed_by,
        release=release_of(item),
        manifest=declared(item, kind),
    )


def release_of(item: Json) -> tuple[str, str] | None:
    """Return namespace and name of the Helm release in an object's annotations; None without them.

    Raises:
        IllFormed: The namespace or the name is invalid.
    """
    release = helm_release(item)
    return (grammar.namespace(release[0]), grammar.name(release[1])) if release else None


def declared(item: Json, kind: str) -> Json:
    """Return an object of the API group `apps` as a manifest, without the API server's defaults."""
    metadata = item["metadata"]
    notes = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in _NOTES
    }
    metadata_fields = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": dict(metadata.get("labels") or {}),
        "annotations": notes,
    }
    spec = {**item["spec"], "template": _pod_template(item["spec"]["template"])}
    if spec.get("revisionHistoryLimit") == 10:
        del spec["revisionHistoryLimit"]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {key: value for key, value in metadata_fields.items() if value},
        "spec": spec,
    }


def _pod_template(template: Json) -> Json:
    metadata = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key in ("labels", "annotations") and value
    }
    pod = _without_defaults(template["spec"], _POD_DEFAULTS)
    # The API server copies `serviceAccountName` to the deprecated field `serviceAccount`.
    if pod.get("serviceAccount") == pod.get("serviceAccountName"):
        pod.pop("serviceAccount", None)
    for key in ("initContainers", "containers"):
        if key in pod:
            pod[key] = [_without_defaults(container, _CONTAINER_DEFAULTS) for container in pod[key]]
    return {"metadata": metadata, "spec": pod}


def _without_defaults(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> Json:
    return {
        key: value for key, value in fields.items() if key not in defaults or value != defaults[key]
    }


def edits(item: str, recorded: Json, live: Json) -> tuple[Edit, ...]:
    """Return the fields of a manifest in Helm's record that have another value in the live object.

    Fields that only the live object has are not returned, because Helm does not reset them. Labels
    and annotations of the object itself don't restart its pods, so they are not compared.

    Args:
        item: The object, for messages.
        recorded: Manifest in Helm's record.
        live: The object as the API server returned it.
    """
    paths = _differing_fields(recorded.get("spec"), live.get("spec"), "spec")
    return tuple(Edit(item=item, path=path) for path in paths)


def _differing_fields(recorded: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, Mapping):
        live_fields = live if isinstance(live, Mapping) else {}
        for key, value in recorded.items():
            yield from _differing_fields(value, live_fields.get(key), f"{path}.{key}")
    elif isinstance(recorded, list):
        held_list = live if isinstance(live, list) else []
        if len(recorded) != len(held_list):
            yield path
            return
        for index, (recorded_item, live_item) in enumerate(zip(recorded, held_list, strict=True)):
            yield from _differing_fields(recorded_item, live_item, f"{path}[{index}]")
    elif not _is_same_value(recorded, live, path):
        yield path


def _is_same_value(recorded: Any, live: Any, path: str) -> bool:
    """Return whether two values are equal, are equal quantities, or are both empty.

    For a field that is null in a manifest, the API server sets its default, which is not known
    here. So the value of such a field is not compared.
    """
    if recorded is None or (recorded in ("", False) and live in (None, "", False)):
        return True
    if recorded == live:
        return True
    return bool(_QUANTITY.fullmatch(path)) and is_equal(recorded, live)
