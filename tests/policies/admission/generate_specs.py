"""Hypothesis strategies for pod specs that are usually valid and often nearly break a rule."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gpu_rules.kube.gpu_resources import BY_CLASS
from gpu_rules.rules import RULES, TWINS
from gpu_rules.rules.twin import Twin
from tests.policies.admission.cluster import GPU, RUNTIME_CLASSES

Json = dict[str, Any]

SHARED, MIG = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
PERCENTAGE = "nvidia.com/gpumem-percentage"
LIMIT_KEY = "tencent.com/vcuda-core-limit"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"

_ODD = (
    *("0", "1", "08", "1000m", "2000m", "0.9999999", "1k", "1e3", "1Ki", 1.0, None, "1E", "0n"),
    *("10000000000000000", "1e16", "8Ei", "100E", "1e30", "99999999999999999999", "12345678901"),
)
_REFUSED = ("500m", -1, "1.0001", "one")
_FEW = st.sampled_from([0, 1, 1, 1, 2, 3, 4, 8, 9])


def _amounts(common: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    odd = st.sampled_from(_ODD)
    return st.integers(0, 99).flatmap(
        lambda n: st.sampled_from(_REFUSED) if n == 0 else odd if n < 9 else common
    )


_CORES = st.sampled_from([0, 1, 50, 99, 100, 100, 101, 150, 200, 300, 800, 900, "1k", 1050])
AMOUNTS = {
    GPU: _amounts(_FEW),
    SHARED: _amounts(st.sampled_from([0, 1, 1, 2, 3])),
    MIG: _amounts(_FEW),
    CORE: _amounts(_CORES),
    MEMORY: _amounts(st.sampled_from([0, 1, 4, 32, 33, 64, 65, 90, 99])),
    PERCENTAGE: _amounts(st.sampled_from([0, 50, 100, 101])),
    "amd.com/gpu": _amounts(_FEW),
    "rdma/hca": _amounts(_FEW),
    "nvidia.com/gpus": _amounts(_FEW),
    "nvidia.com/GA102GL_A10": _amounts(_FEW),
    "habana.ai/gaudi": _amounts(_FEW),
    "example.com/npu": _amounts(_FEW),
    "volcano.sh/vgpu-number": _amounts(_FEW),
    "aliyun.com/gpu-mem": _amounts(_FEW),
    f"{BY_CLASS}gpu.nvidia.com": _amounts(_FEW),
    f"{BY_CLASS}GPU": _amounts(_FEW),
    f"{BY_CLASS}npu.example.com": _amounts(_FEW),
}
_NAMES = st.sampled_from([GPU, GPU, GPU, CORE, CORE, MEMORY, MEMORY, SHARED, MIG, *AMOUNTS])
_SIZES = st.sampled_from(
    [
        ({"cpu": 1, "memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"}),
        ({"memory": "1Gi"}, {"cpu": "500m"}),
        ({"memory": "1Gi"}, {"cpu": "500m", "memory": "1024Mi"}),
        ({"memory": "2Gi"}, {"cpu": "500m", "memory": "1Gi"}),
        ({"cpu": 1, "memory": "1Gi"}, {}),
        ({}, {"cpu": 1, "memory": "1Gi"}),
        ({"cpu": 1}, {}),
    ]
)


@st.composite
def _resources(draw: st.DrawFn) -> Json:
    names = draw(st.lists(_NAMES, max_size=3, unique=True))
    if CORE in names and draw(st.booleans()):
        names = [*dict.fromkeys([*names, MEMORY])]
    limits = {name: draw(AMOUNTS[name]) for name in names}
    how = draw(st.integers(0, 19))
    if how < 12:
        resources: Json = {"limits": limits}
    elif how < 18:
        resources = {"limits": limits, "requests": dict(limits)}
    if how < 18:
        if draw(st.booleans()):
            more, asked = draw(_SIZES)
            resources["limits"] = resources["limits"] | more
            resources["requests"] = resources.get("requests", {}) | asked
        return resources
    return {"limits": limits, "requests": {name: draw(AMOUNTS[name]) for name in names[:1]}}


_ENV = st.lists(
    st.sampled_from(
        [
            {"name": VARIABLE, "value": "none"},
            {"name": VARIABLE, "value": "void"},
            {"name": VARIABLE, "value": "all"},
            {"name": VARIABLE, "value": ""},
            {"name": VARIABLE},
            {
                "name": VARIABLE,
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
            },
            {"name": "A", "value": "all"},
        ]
    ),
    max_size=2,
)


_IMAGES = st.sampled_from(
    [
        *("cuda", "cuda:13.0", "cuda:13.0", "cuda:13.0", "cuda:latest", "host:5000/cuda"),
        *("host:5000/a/cuda:latest", "host:5000/a/cuda:1", "cuda:a:b", f"cuda@sha256:{'0' * 64}"),
        *(f"cuda:latest@sha256:{'0' * 64}", "cuda:"),
    ]
)
_VOLUME_NAMES = st.sampled_from(["shm", "shm", "path", "path-2"])
_MOUNT_PATHS = st.sampled_from(["/dev/shm", "/dev/shm", "/dev/shm/", "/dev/shm2", "/data"])
_HOST_PATHS = st.sampled_from(
    [
        *("/", "/dev", "/dev/", "//dev//nvidia0", "/dev/./nvidiactl", "/run/nvidia", "/data"),
        *("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/containerd", "/var"),
        *("/var/lib/kubelet/device-plugins", "/opt/cni/bin", "/etc/cni/net.d/x", "/opt", "dev"),
        *("/proc/1/root", "/proc/1/rootless", "/proc/self/cwd/x", "/proc", "/dev/dri", "/etc"),
        *("/run/podman/podman.sock", "/etc/cdi", "/etc/kubernetes/manifests/x"),
        *("/data/x", "/data01/models", "/mnt/k8s-disks/0", "/proc/1/task/1/root", "/var/log"),
    ]
)
_VOLUMES = st.sampled_from(
    [
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {}},
        {"configMap": {"name": "a"}},
    ]
)


@st.composite
def _container(draw: st.DrawFn, name: str) -> Json:
    made: Json = {"name": name, "image": draw(_IMAGES), "resources": draw(_resources())}
    if draw(st.integers(0, 4)) == 0:
        made["volumeMounts"] = [{"name": draw(_VOLUME_NAMES), "mountPath": draw(_MOUNT_PATHS)}]
    if draw(st.integers(0, 7)) == 0:
        made["env"] = draw(_ENV)
    if draw(st.integers(0, 15)) == 0:
        prefix = draw(st.sampled_from(["NVIDIA_", "N", "NV_", ""]))
        made["envFrom"] = [{"prefix": prefix, "configMapRef": {"name": "a"}}]
    if draw(st.integers(0, 7)) == 0:
        made["securityContext"] = {"privileged": draw(st.booleans())}
    elif draw(st.integers(0, 7)) == 0:
        added = draw(st.sampled_from(["SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "all", "NET_ADMIN"]))
        made["securityContext"] = {"capabilities": {"add": [added]}}
    return made


_TOLERATIONS = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": GPU, "operator": "Exists"},
        {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
        {"key": GPU, "operator": "Exists", "effect": "NoExecute"},
        {"key": GPU, "operator": "Equal", "value": "present"},
        {"key": GPU, "value": "present", "effect": "NoSchedule"},
        {"key": GPU, "value": "absent"},
        {"key": GPU},
        {"key": "batch", "operator": "Exists"},
        {"key": "batch"},
        {"key": "batch", "value": "x", "effect": "NoExecute"},
        {"key": "nvidia.com", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
    ]
)
_SELECTORS = st.sampled_from(
    [
        {"gpu": "a100"},
        {"gpu": "t4"},
        {"gpu": "v100"},
        {"gpu": "none"},
        {"gpu": "a100", "zone": "a"},
        {"zone": "a"},
        {"zone": "b"},
        {"zone": ""},
        {"other": "x"},
    ]
)
_EXPRESSIONS = st.sampled_from(
    [
        {"key": "gpu", "operator": "In", "values": ["a100", "t4"]},
        {"key": "gpu", "operator": "In", "values": ["none"]},
        {"key": "gpu", "operator": "NotIn", "values": ["a100"]},
        {"key": "gpu", "operator": "Exists"},
        {"key": "gpu", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "size", "operator": "Gt", "values": ["2"]},
        {"key": "size", "operator": "Lt", "values": ["8"]},
        {"key": "gpu", "operator": "Gt", "values": ["1"]},
        {"key": "other", "operator": "In", "values": ["x"]},
    ]
)
_TERMS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"matchExpressions": st.lists(_EXPRESSIONS, max_size=2)}),
        st.just({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}),
    ),
    min_size=1,
    max_size=2,
)
_RULE_IDS = sorted(rule for rule in RULES if isinstance(TWINS[rule], Twin))
_EXEMPTIONS = st.dictionaries(
    st.sampled_from([*_RULE_IDS, *_RULE_IDS, "GPU999", "GPU01", "other"]).map(
        lambda rule: f"exempt.gpu-cluster/{rule}"
    ),
    st.sampled_from(
        [
            *("2030-12-31 why", "2030-12-31 why", "  2030-02-28   why not ", "2020-01-01 why"),
            *("2030-02-30 why", "2030-12-31", "why", "", "2030-12-31why", "2030-1-1 why"),
        ]
    ),
    min_size=1,
    max_size=2,
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            *(LIMIT_KEY, LIMIT_KEY, "tencent.com/predicate-time", "tencent.com/gpu-assigned"),
            *("tencent.com/predicate", "tencent.com/gpu-assigned-0", "example.com/a"),
        ]
    ),
    st.sampled_from(
        [
            "1",
            "50",
            "100",
            "101",
            "0",
            "050",
            "",
            "-1",
            "1.0",
            "ten",
            "1 ",
            "٣",
            "0000000050",
            "0000000500",
        ]
    ),
    max_size=2,
)


_CLAIMED = st.sampled_from(["one-gpu", "one-gpu", "train", "nic", "gpu-nic", "mine", "rdma-0"])


def add_claims(draw: st.DrawFn, spec: Json) -> None:
    """Add up to four claims to the spec of a pod, and uses of them to some of its containers."""
    claims: list[Json] = []
    for index in range(draw(st.integers(1, 4))):
        field = draw(st.sampled_from(["resourceClaimName", "resourceClaimTemplateName"]))
        claims.append({"name": f"device-{index}", field: draw(_CLAIMED)})
    spec["resourceClaims"] = claims
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        used = [{"name": claim["name"]} for claim in claims if draw(st.booleans())]
        if used and draw(st.booleans()):
            container["resources"] = {**container["resources"], "claims": used}


@st.composite
def specs(draw: st.DrawFn) -> Json:
    """Generate the spec of a pod or of a pod template."""
    spec: Json = {
        "containers": [draw(_container(f"app-{i}")) for i in range(draw(st.integers(1, 2)))]
    }
    if draw(st.integers(0, 2)) == 0:
        spec["initContainers"] = [
            draw(_container(f"init-{i}")) for i in range(draw(st.integers(1, 3)))
        ]
        for init_container in spec["initContainers"]:
            if draw(st.booleans()):
                init_container["restartPolicy"] = "Always"
    if draw(st.integers(0, 3)):
        spec["tolerations"] = draw(st.lists(_TOLERATIONS, max_size=2))
    if draw(st.integers(0, 2)) == 0:
        spec["nodeSelector"] = draw(_SELECTORS)
    if draw(st.integers(0, 5)) == 0:
        required = {"nodeSelectorTerms": draw(_TERMS)}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    if draw(st.integers(0, 9)) == 0:
        spec["nodeName"] = draw(st.sampled_from(["gpu-1", "gpu-2"]))
    if draw(st.integers(0, 9)) == 0:
        spec["activeDeadlineSeconds"] = 60
    if draw(st.integers(0, 5)) == 0:
        spec["runtimeClassName"] = draw(st.sampled_from(RUNTIME_CLASSES))
    if draw(st.integers(0, 7)) == 0:
        add_claims(draw, spec)
    if draw(st.integers(0, 9)) == 0:
        more, asked = draw(_SIZES)
        spec["resources"] = {"limits": more, "requests": asked}
    if draw(st.integers(0, 9)) == 0:
        spec[draw(st.sampled_from(["hostPID", "hostIPC"]))] = True
    hosts = draw(st.booleans()) and draw(st.booleans())
    mounted = {
        mount["name"]
        for container in (*spec["containers"], *spec.get("initContainers", ()))
        for mount in container.get("volumeMounts", ())
    }
    volumes = [{"name": name, **draw(_VOLUMES)} for name in sorted(mounted)]
    if hosts:
        volumes.append({"name": "host", "hostPath": {"path": draw(_HOST_PATHS)}})
    if volumes:
        spec["volumes"] = volumes
    return spec


@st.composite
def annotated(draw: st.DrawFn) -> Json:
    """Generate the part of an object's metadata with annotations; it is often empty."""
    which = draw(st.integers(0, 9))
    if which > 2:
        return {}
    return {"annotations": draw(_EXEMPTIONS if which == 0 else _ANNOTATIONS)}
