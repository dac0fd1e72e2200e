"""NVIDIA's DRA driver on real and simulated nodes, and pods with ResourceClaims for GPUs."""

from __future__ import annotations

from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from lab.real.behaviours import Act, pod_name
from lab.real.image import IMAGE
from lab.real.lab import REAL, Json, Lab
from lab.real.mock import Mock
from lab.real.objects import GPU_NODES, gpu_pod
from lab.real.validating import declared, plain
from lab.real.validation_inspections import NAMESPACE

#: Key of the test phase in which the DRA driver runs on the nodes instead of the device plugin.
KEY = "dra"
NAME = "dra-driver-nvidia-gpu-kubelet-plugin"
#: Pod labels in the DRA driver's chart 0.4.1, by which this project and the simulator recognise the
#: driver's pods.
LABELS = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
_RESOURCES = "/apis/resource.k8s.io/v1"
_REGISTRY, _PLUGINS = "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins"
_RULES = (
    (["resource.k8s.io"], ["resourceclaims"], ["get", "list", "watch"]),
    (
        ["resource.k8s.io"],
        ["resourceslices"],
        ["get", "list", "watch", "create", "update", "delete"],
    ),
    ([""], ["nodes"], ["get", "list", "watch", "update"]),
    ([""], ["pods"], ["get", "list", "watch"]),
)


def daemon_set() -> Json:
    """Return the DaemonSet of the DRA driver's kubelet plugin, as in the driver's chart.

    Source: dra-driver-nvidia-gpu v0.4.1,
    deployments/helm/dra-driver-nvidia-gpu/templates/kubeletplugin.yaml.
    """
    folders = {"registry": _REGISTRY, "plugins": _PLUGINS, "cdi": "/var/run/cdi"}
    environment = {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CDI_ROOT": "/var/run/cdi",
        "IMAGE_NAME": IMAGE,
        "NVIDIA_CDI_HOOK_PATH": "/usr/bin/nvidia-cdi-hook",
        # The mock NVML library needs this path of its state file, which is next to the library; a
        # real driver has no state file.
        "MOCK_NVML_STATE": f"/driver-root{Mock('').state_path}",
    }
    node_name = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    container = {
        "name": "gpus",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/gpu-kubelet-plugin", "-v", "4"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": node_name},
            *({"name": name, "value": value} for name, value in environment.items()),
        ],
        "securityContext": {"privileged": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "driver", "mountPath": "/driver-root", "mountPropagation": "HostToContainer"},
            {"name": "registry", "mountPath": _REGISTRY},
            {"name": "plugins", "mountPath": _PLUGINS, "mountPropagation": "Bidirectional"},
            {"name": "cdi", "mountPath": "/var/run/cdi"},
        ],
    }
    spec = {
        "serviceAccountName": NAME,
        "nodeSelector": GPU_NODES,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "driver", "hostPath": {"path": "/"}},
            *(
                {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
                for name, path in folders.items()
            ),
        ],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }


def prepare(lab: Lab) -> None:
    """Create the DRA driver's other objects, and ResourceClaimTemplates for test pods."""
    access = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": g, "resources": r, "verbs": v} for g, r, v in _RULES]
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    metadata: dict[str, Any] = {"metadata": {"name": NAME}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    lab.request("POST", accounts, metadata)
    lab.request("POST", f"{access}/clusterroles", {**metadata, "rules": rules})
    bound = {**metadata, "roleRef": role, "subjects": [subject]}
    lab.request("POST", f"{access}/clusterrolebindings", bound)
    choice = (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    )
    device_class = {
        "metadata": {"name": DRA_DRIVER},
        "spec": {"selectors": [{"cel": {"expression": choice}}]},
    }
    lab.request("POST", f"{_RESOURCES}/deviceclasses", device_class)
    cluster = declared(lab, REAL[0], {}, platform="dra")
    platform = resolve(cluster, "test").platform
    for name, space, count in (
        (NAMESPACE, NAMESPACE, 1),
        ("one", "default", 1),
        ("three", "default", 3),
    ):
        template = platform.claim(name, space, count)
        path = f"{_RESOURCES}/namespaces/{space}/resourceclaimtemplates"
        lab.request("POST", path, template)


def claims(purpose: str, template: str, count: int = 1) -> Act:
    """Return a function that creates a pod with `count` containers, each with its own claim.

    The claims are made from the ResourceClaimTemplate `template`.
    """

    def act(lab: Lab, node: str) -> None:
        pod = gpu_pod(pod_name(node, purpose), node, (0,) * count, "hold")
        names = [container["name"] for container in pod["spec"]["containers"]]
        pod["spec"]["resourceClaims"] = [
            {"name": name, "resourceClaimTemplateName": template} for name in names
        ]
        for container in pod["spec"]["containers"]:
            container["resources"] = {"claims": [{"name": container["name"]}]}
        lab.create(pod)

    return act


def devices(lab: Lab, node: str) -> list[Json]:
    """Return the GPUs in a node's ResourceSlices."""
    slices = lab.request("GET", f"{_RESOURCES}/resourceslices")["items"]
    node_slices = [
        resource_slice["spec"]
        for resource_slice in slices
        if resource_slice["spec"].get("nodeName") == node
    ]
    return [
        {**device, "pool": plain(lab, node, spec["pool"]["name"]), "driver": spec["driver"]}
        for spec in node_slices
        for device in spec.get("devices") or []
    ]


def published(lab: Lab, node: str) -> list[tuple[str, str, str]]:
    """Return the driver, the pool and the device name of each GPU in a node's ResourceSlices."""
    return sorted(
        (device["driver"], device["pool"], device["name"]) for device in devices(lab, node)
    )


def uuids(lab: Lab, node: str) -> dict[str, str]:
    """Return the UUID of each GPU in a node's ResourceSlices, by device name."""
    return {
        device["name"]: plain(lab, node, device["attributes"]["uuid"]["string"])
        for device in devices(lab, node)
    }


def kinds(lab: Lab, node: str) -> set[tuple[str, str]]:
    """Return the types and architectures of the GPUs in a node's ResourceSlices."""
    attributes = [device["attributes"] for device in devices(lab, node)]
    return {
        (device_attributes["type"]["string"], device_attributes["architecture"]["string"])
        for device_attributes in attributes
    }


def waits(purpose: str) -> Any:
    """Return a function that reads why a pod with ResourceClaims isn't scheduled."""

    def inspect(lab: Lab, node: str) -> tuple[str, bool]:
        status = lab.pod(pod_name(node, purpose))["status"]
        message = (status.get("conditions") or [{}])[0].get("message", "")
        return status.get("phase", ""), "cannot allocate all claims" in message

    return inspect
