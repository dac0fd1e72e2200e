"""Hypothesis strategies for objects that often break a rule that random objects rarely break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from gpu_rules.facts.floors import Software, floors
from gpu_rules.kube.gpu_resources import BY_CLASS
from tests.policies.admission.cluster import CONTEXTS, GPU, LABEL
from tests.policies.admission.generate_specs import (
    CORE,
    LIMIT_KEY,
    MEMORY,
    MIG,
    PERCENTAGE,
    VARIABLE,
    add_claims,
)

Json = dict[str, Any]

# Number of time-sliced GPU replicas in all pools of the test cluster "plugin".
_ROOM = 20
# Number of vcuda-memory blocks of one GPU in the pools of the test cluster "vcuda".
_BLOCKS = (32, 64)
_NAMESPACES = st.sampled_from(list(CONTEXTS))
# The rules of one product hold only where it is used.
_OF_PRODUCTS = st.sampled_from(["plugin", "plugin", "vcuda", "whole"])
_CLASSES = st.sampled_from(
    [
        *("gpu.nvidia.com", "gpu.nvidia.com", "nvidia.com", "nic", "npu.example.com"),
        *("imex.nvidia.com", "compute-domain-default-channel.nvidia.com"),
    ]
)
_CLAIM_NAMES = st.sampled_from(["a", "a", "gpu", "nic", "rdma-0", "gpu-nic", "mine"])


def _metadata(namespace: str) -> Json:
    return {"name": "a", "namespace": namespace}


def _container(limits: Json) -> Json:
    return {"name": "a", "image": "cuda:13.0", "resources": {"limits": limits}}


@st.composite
def _updates(draw: st.DrawFn) -> Json:
    """Generate a Deployment whose rolling update may need more GPUs than exist (GPU026, GPU039)."""
    gpus, surge = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    spec = {"containers": [_container({GPU: gpus})], "tolerations": [{"operator": "Exists"}]}
    labels = {"app": "a"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(draw(st.sampled_from(["plugin", "plugin", "vcuda"]))),
        "spec": {
            "replicas": max(_ROOM // gpus - draw(st.integers(-1, 3)), 0),
            "strategy": {"rollingUpdate": {"maxUnavailable": int(surge == 0), "maxSurge": surge}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@st.composite
def _parts(draw: st.DrawFn) -> Json:
    """Generate a pod with a part of a GPU, which may be wrong (GPU005, GPU006, GPU020, GPU046)."""
    limits = {CORE: draw(st.sampled_from([*range(5, 101, 15), 100, 101, 150]))}
    if draw(st.integers(0, 3)):
        limits[MEMORY] = draw(st.sampled_from(_BLOCKS)) + draw(st.integers(-1, 2))
    spec: Json = {"containers": [_container(limits)], "tolerations": [{"operator": "Exists"}]}
    if draw(st.booleans()):
        spec["nodeSelector"] = {"gpu": draw(st.sampled_from(["a100", "t4", "v100"]))}
    metadata = _metadata("vcuda")
    if draw(st.integers(0, 3)) == 0:
        metadata["annotations"] = {"tencent.com/predicate-time": str(draw(st.integers(0, 999)))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _limits(draw: st.DrawFn) -> Json:
    """Generate a LimitRange with default limits that may include GPUs (GPU012)."""
    names = draw(st.lists(st.sampled_from([GPU, MIG, CORE, "cpu"]), min_size=1, unique=True))
    given = {name: draw(st.integers(0, 8)) for name in names}
    kind, field = draw(
        st.sampled_from(
            [("Container", "default"), ("Container", "max"), ("Pod", "max"), ("Pod", "min")]
        )
    )
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": _metadata(draw(_NAMESPACES)),
        "spec": {"limits": [{"type": kind, field: given}]},
    }


@st.composite
def _environments(draw: st.DrawFn) -> Json:
    """Generate a ConfigMap or Secret that contains NVIDIA_VISIBLE_DEVICES (GPU035)."""
    value = draw(st.integers(0, 99).map(lambda n: "none" if n < 10 else str(n)))
    kind, field = draw(st.sampled_from([("ConfigMap", "data"), ("Secret", "stringData")]))
    made = {"apiVersion": "v1", "kind": kind, "metadata": _metadata(draw(_NAMESPACES))}
    return {**made, field: {VARIABLE: value}}


@st.composite
def _namespaces(draw: st.DrawFn) -> Json:
    """Generate a Namespace with or without a Pod Security level."""
    labels = {LABEL: draw(_NAMESPACES), "team": str(draw(st.integers(0, 999)))}
    level = draw(st.sampled_from(["", "privileged", "baseline", "restricted"]))
    if level:
        labels["pod-security.kubernetes.io/enforce"] = level
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}}


def _daemon_set(namespace: str, spec: Json) -> Json:
    """Return a DaemonSet whose pods have this specification."""
    labels = {"app": "a"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(namespace),
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@st.composite
def _services(draw: st.DrawFn) -> Json:
    """Generate a DaemonSet for node services that may not tolerate GPU taints (GPU033)."""
    path = draw(st.sampled_from(["/opt/cni/bin", "/etc/cni/net.d", "/opt"]))
    keys = draw(st.lists(st.sampled_from([GPU, "batch", "zone"]), max_size=2, unique=True))
    spec: Json = {
        "containers": [_container({"cpu": draw(st.integers(1, 64))})],
        "tolerations": [{"key": key, "operator": "Exists"} for key in keys],
        "volumes": [{"name": "cni", "hostPath": {"path": path}}],
    }
    return _daemon_set(draw(_NAMESPACES), spec)


@st.composite
def _shares(draw: st.DrawFn) -> Json:
    """Generate a pod that requests a part of a GPU by annotation or percentage (GPU025, GPU061)."""
    limits = {GPU: 1, PERCENTAGE: draw(st.integers(90, 110))}
    metadata = _metadata(draw(_OF_PRODUCTS))
    metadata["annotations"] = {LIMIT_KEY: str(draw(st.integers(90, 110)))}
    spec = {"containers": [_container(limits)], "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _jobs(draw: st.DrawFn) -> Json:
    """Generate a Job that may lack a deadline or has many retries (GPU048)."""
    template = {"containers": [_container({GPU: draw(st.integers(0, 2))})]}
    spec: Json = {
        "template": {"spec": {**template, "restartPolicy": "Never"}},
        "backoffLimit": draw(st.integers(5, 14)),
    }
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.integers(1, 99))
    metadata = _metadata(draw(_NAMESPACES))
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@st.composite
def _claims(draw: st.DrawFn) -> Json:
    """Generate a ResourceClaim or a ResourceClaimTemplate (GPU065, GPU068)."""
    one: Json = {"deviceClassName": draw(_CLASSES)}
    if draw(st.integers(0, 4)) == 0:
        one["allocationMode"] = "All"
    else:
        one["count"] = draw(st.integers(0, 14))
    request: Json = {"name": "r", "exactly": one}
    if draw(st.integers(0, 2)) == 0:
        one["adminAccess"] = True
    elif draw(st.booleans()):
        request = {"name": "r", "firstAvailable": [{"name": "s", **one}]}
    more = [{**request, "name": f"r{index}"} for index in range(draw(st.integers(0, 2)))]
    spec: Json = {"devices": {"requests": [request, *more]}}
    kind = draw(st.sampled_from(["ResourceClaim", "ResourceClaimTemplate"]))
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": _metadata(draw(_NAMESPACES)) | {"name": draw(_CLAIM_NAMES)},
        "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec,
    }


@st.composite
def _gpu_claims(draw: st.DrawFn) -> Json:
    """Generate a template of claims for GPUs near the maximum of a claim (GPU065, GPU077)."""
    count = draw(st.integers(4, 20))
    one: Json = {"deviceClassName": "gpu.nvidia.com", "count": count}
    devices = {"requests": [{"name": "r", "exactly": one}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": _metadata(draw(_NAMESPACES)) | {"name": draw(_CLAIM_NAMES)},
        "spec": {"spec": {"devices": devices}},
    }


@st.composite
def _by_class(draw: st.DrawFn) -> Json:
    """Generate a pod that requests devices by the extended resource of a DeviceClass (GPU070).

    The API server accepts a request for such a resource without a limit.
    """
    name = draw(st.sampled_from(["gpu.nvidia.com", "mig-devices", "nic.example.com", "GPU"]))
    asked = {f"{BY_CLASS}{name}": draw(st.integers(0, 64))}
    part = draw(st.sampled_from(["limits", "requests"]))
    container = {**_container({"cpu": 1}), "resources": {part: asked}}
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    metadata = _metadata(draw(_NAMESPACES))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _near_a_cap(draw: st.DrawFn) -> Json:
    """Generate a pod whose resources and claims are together near the largest sum (GPU028)."""
    names = st.sampled_from([GPU, GPU, MIG, CORE, "example.com/npu", "volcano.sh/vgpu-number"])

    def container(name: str) -> Json:
        amount = draw(st.integers(0, 4))
        resource = draw(names)
        limits = {resource: amount * 100 if resource == CORE else amount}
        return {**_container(limits), "name": name}

    spec: Json = {
        "containers": [container(f"app-{index}") for index in range(draw(st.integers(1, 2)))],
        "initContainers": [container(f"init-{index}") for index in range(draw(st.integers(0, 2)))],
        "tolerations": [{"operator": "Exists"}],
    }
    for first in spec["initContainers"]:
        if draw(st.booleans()):
            first["restartPolicy"] = "Always"
    if draw(st.booleans()):
        add_claims(draw, spec)
    namespace = draw(st.sampled_from(["plugin", "whole", "infrastructure", "vcuda"]))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(namespace), "spec": spec}


@st.composite
def _agents(draw: st.DrawFn) -> Json:
    """Generate a DaemonSet without GPUs but with access to its node (GPU078, GPU079)."""
    mount: Json = {"name": "node", "mountPath": "/node"}
    if draw(st.booleans()):
        mount["readOnly"] = True
    container = {**_container({"cpu": draw(st.integers(1, 64))}), "volumeMounts": [mount]}
    if draw(st.booleans()):
        container["securityContext"] = {"privileged": True}
    path = draw(st.sampled_from(["/", "/dev", "/proc", "/var/lib/kubelet/device-plugins", "/opt"]))
    spec: Json = {
        "containers": [container],
        "tolerations": [{"operator": "Exists"}] if draw(st.integers(0, 3)) else [],
        "volumes": [{"name": "node", "hostPath": {"path": path}}],
    }
    return _daemon_set(draw(_NAMESPACES), spec)


@st.composite
def _hami(draw: st.DrawFn) -> Json:
    """Generate a pod with amounts of HAMi's GPU resources near their maximum (GPU080, GPU081)."""
    limits: Json = {"nvidia.com/gpucores": draw(st.integers(90, 110))}
    if draw(st.booleans()):
        limits[GPU] = 1
    if draw(st.booleans()):
        limits["nvidia.com/gpumem"] = draw(st.sampled_from([1, 3000, "3Gi"]))
    spec = {"containers": [_container(limits)], "tolerations": [{"operator": "Exists"}]}
    metadata = _metadata(draw(_OF_PRODUCTS))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _node_processes(draw: st.DrawFn) -> Json:
    """Generate a pod that may use namespaces of its node (GPU067)."""
    spec = {
        "containers": [_container({GPU: 1} if draw(st.integers(0, 3)) else {"cpu": 1})],
        "tolerations": [{"operator": "Exists"}],
        **{name: draw(st.integers(0, 3)) > 1 for name in ("hostPID", "hostIPC")},
    }
    metadata = _metadata(draw(_NAMESPACES))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _servers(draw: st.DrawFn) -> Json:
    """Generate a GPU server with probes, variables and shared memory (GPU049, GPU082, GPU083)."""
    limits: Json = {GPU: draw(st.integers(0, 3))}
    if draw(st.booleans()):
        limits["memory"] = draw(st.sampled_from(["512Mi", "2Gi", "16Gi"]))
    numbers = {
        "initialDelaySeconds": (0, 150),
        "periodSeconds": (0, 20),
        "failureThreshold": (0, 9),
    }
    probe: Json = {"tcpSocket": {"port": 80}}
    for name, (least, most) in numbers.items():
        if draw(st.booleans()):
            probe[name] = draw(st.integers(least, most))
    image = draw(st.sampled_from(["server:1", "server:1", "server:nightly-gpu", "jupyter/lab:1"]))
    variable = draw(st.sampled_from(["NVIDIA_DISABLE_REQUIRE", "NVIDIA_DISABLE_REQUIRED"]))
    container: Json = {
        **_container(limits),
        "image": image,
        "env": [{"name": variable, "value": draw(st.sampled_from(["1", "true", "yes", ""]))}],
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if draw(st.integers(0, 3)):
        container["livenessProbe"] = probe
    if draw(st.integers(0, 3)) == 0:
        container["startupProbe"] = {"tcpSocket": {"port": 80}}
    memory: Json = {"medium": "Memory"}
    if draw(st.integers(0, 3)):
        memory["sizeLimit"] = draw(st.sampled_from(["0", "64Mi", "1Gi", "4Gi", "1e9", 2**30]))
    spec = {
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "shm", "emptyDir": memory}],
    }
    metadata = _metadata(draw(_NAMESPACES))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


CSI: Json = {"driver": "hostpath.csi.k8s.io", "volumeHandle": "a"}


@st.composite
def _persistent_volumes(draw: st.DrawFn) -> Json:
    """Generate a PersistentVolume with a folder of a node as its source (GPU066)."""
    path = draw(
        st.sampled_from(
            ["/dev", "/dev//nvidia0", "/proc/1/root", "/mnt/a", "/mnt", "/", "/data", "/var/lib"]
        )
    )
    path += draw(st.sampled_from(["", "/", "/x"]))
    labels = {LABEL: draw(_NAMESPACES)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"a{draw(st.integers(0, 999))}", "labels": labels},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            **draw(
                st.sampled_from(
                    [
                        {"hostPath": {"path": path}},
                        {"csi": {**CSI, "volumeAttributes": {"path": path, "mode": "rw"}}},
                    ]
                )
            ),
        },
    }


@st.composite
def _nodes(draw: st.DrawFn) -> Json:
    """Generate a Node whose driver version is near a security floor (GPU072)."""
    entry = draw(st.sampled_from([entry for entry in floors() if entry.part is Software.DRIVER]))
    branch, *rest = (int(number) for number in entry.fixed.split("."))
    branch += draw(st.sampled_from([0, 0, 0, 0, 1, -1, 100, -400]))
    rest[-1] = max(rest[-1] + draw(st.integers(-2, 2)), 0)
    version = ".".join([str(branch), *(f"{number:02}" for number in rest)])
    version = draw(st.sampled_from(["", "", "", "", "v", "0", "x"])) + version
    version += draw(st.sampled_from(["", "", "", "", "", ".1", ".1.1", "-1", "a", "1234567890"]))
    labels = {LABEL: draw(_NAMESPACES), "nvidia.com/cuda.driver-version.full": version}
    name = f"a{draw(st.integers(0, 999))}"
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


RARE: Final[Mapping[Callable[[], st.SearchStrategy[Json]], int]] = {
    _updates: 8,
    _parts: 5,
    _shares: 5,
    _hami: 5,
    _claims: 4,
    _limits: 1,
    _environments: 2,
    _namespaces: 1,
    _services: 3,
    _jobs: 4,
    _agents: 5,
    _gpu_claims: 3,
    _near_a_cap: 3,
    _persistent_volumes: 3,
    _by_class: 2,
    _servers: 4,
    _node_processes: 3,
    _nodes: 2,
}
"""Strategies of this module, each with its share of the generated objects."""
