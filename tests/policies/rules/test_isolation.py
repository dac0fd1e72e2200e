"""The rules against bypassing the device plugin: host paths, privileges, environment variables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.facts.host_folders import FOLDERS, HOST_PATH
from gpu_rules.parameters import context_by
from gpu_rules.rules import UNKNOWN, Context
from tests.policies.rules.cases import (
    CONTEXT,
    POOL,
    PRIVILEGED,
    container,
    gpus,
    ids,
    paths,
    pod,
    resource,
    workload,
)
from tests.policies.rules.messages import judge


def on_host(path: Any, *containers: Any, **fields: Any) -> dict[str, Any]:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}]
    return pod(*containers, volumes=volumes, **fields)


HOST_PATHS: list[tuple[str, bool, bool]] = [
    # Columns: path, whether it is refused in any pod, whether it is refused in a pod with GPUs.
    ("/dev/nvidia0", True, True),
    ("/dev/nvidia" + "0" * 80, True, True),
    ("/dev/nvidia-caps", True, True),
    ("/dev/", False, True),
    ("//dev//nvidiactl", True, True),
    ("/dev/../dev/nvidia0", True, True),
    ("/dev/shm", False, False),
    ("/run/nvidia/driver", True, True),
    ("/var/run/nvidia", True, True),
    ("/var/lib/kubelet/device-plugins", True, True),
    ("/var/lib/kubelet", False, True),
    ("/var/lib/kubelet/pod-resources", False, False),
    ("/var/run/docker.sock", True, True),
    ("/run/containerd/containerd.sock", True, True),
    ("/run/crio/crio.sock", True, True),
    ("/run/k3s/containerd/containerd.sock", True, True),
    ("/run/cri-dockerd.sock", True, True),
    ("/run/containerd", False, True),
    ("/run", False, True),
    ("/", False, True),
    ("/proc/1/root/dev", True, True),
    ("/proc/self/root", True, True),
    ("/proc/17/cwd/dev/nvidia0", True, True),
    ("/proc/1/task/7/root", True, True),
    ("/proc/1/fd/9", True, True),
    ("/proc/1/rootless", False, True),
    ("/proc", False, True),
    ("/dev/dri", True, True),
    ("/dev/kfd", True, True),
    ("/dev/char", True, True),
    ("/dev/null", True, True),
    ("/etc/cdi", True, True),
    ("/var/run/cdi", True, True),
    ("/etc/containerd/conf.d", True, True),
    ("/etc/kubernetes/manifests", True, True),
    ("/etc", False, True),
    ("/run/podman/podman.sock", True, True),
    ("/run/containerd/containerd.sock.ttrpc", True, True),
    ("/dev/vfio/vfio", True, True),
    ("/dev/nvhost-ctrl", True, True),
    ("/run/docker/containerd/containerd.sock", True, True),
    ("/etc/nvidia-container-runtime", True, True),
    ("/tmp/nvidia-mps", True, True),
    ("/tmp", False, True),
    ("/mnt/stateful_partition/var/lib/kubelet", True, True),
    ("/data", False, False),
    ("/data/", False, False),
    ("/data/x", False, True),
    ("/data.", False, True),
    ("/data01", False, True),
    ("/data01/models", False, False),
    ("/data01/models/x", False, True),
    ("/mnt/k8s-disks/0", False, False),
    ("/root/models", False, False),
    ("/root", False, True),
    ("/var/log", False, True),
]


@pytest.mark.parametrize(("path", "always", "beside"), HOST_PATHS)
def test_host_paths(path: str, always: bool, beside: bool) -> None:
    place = ["spec.volumes[1].hostPath.path"]
    assert paths("GPU036", on_host(path, container(), tolerations=[])) == (place if always else [])
    assert paths("GPU036", on_host(path, gpus())) == (place if beside else [])
    tolerant = on_host(path, container())
    assert paths("GPU036", tolerant) == (place if beside else []), "it may run on GPU nodes"
    tolerant["metadata"]["namespace"] = "kube-system"
    assert paths("GPU036", tolerant) == []


def test_the_settings_say_which_host_paths_are_allowed() -> None:
    def allowing(*paths: str) -> Context:
        return context_by({"allowedHostPaths": list(paths)}, CONTEXT)

    def refused(path: str, context: Context) -> bool:
        return bool(paths("GPU036", on_host(path, gpus()), context))

    further, others = allowing("default", "/scratch/*"), allowing("/scratch", "/dev", "/")
    assert not refused("/scratch/a", further)
    assert not refused("/data", further)
    assert refused("/scratch", further)
    assert refused("/scratch/a/b", further)
    assert not refused("/scratch", others)
    assert refused("/data", others)
    assert refused("/dev", others), "it holds devices of GPUs"
    assert refused("/", others), "it holds devices of GPUs"
    assert refused("/data", allowing())
    volume = resource("PersistentVolume", spec={"local": {"path": "/scratch/a"}})
    assert paths("GPU066", volume) == ["spec.local.path"]
    assert paths("GPU066", volume, further) == []


def test_no_allowed_host_path_lies_below_another() -> None:
    """Who can write a folder can replace what is below it by a link to any other folder."""
    folders = [path.removesuffix("/*") for path in FOLDERS]
    assert all(re.fullmatch(HOST_PATH, path) for path in FOLDERS)
    assert [(a, b) for a in folders for b in folders if b.startswith(f"{a}/")] == []


def test_nodes_without_a_taint_take_every_pod_that_their_labels_do_not_rule_out() -> None:
    untainted = Context(pools=(POOL, replace(POOL, name="open", taints=(), labels={"gpu": "t4"})))
    place = ["spec.volumes[1].hostPath.path"]
    plain = on_host("/dev", container(), tolerations=[])
    assert paths("GPU036", plain, untainted) == place
    elsewhere = on_host("/dev", container(), tolerations=[], nodeSelector={"gpu": "a100"})
    assert paths("GPU036", elsewhere, untainted) == []
    selecting = on_host("/dev", container(**PRIVILEGED), nodeSelector={"gpu": "t4"}, tolerations=[])
    assert paths("GPU036", selecting, untainted) == place


def test_a_host_path_that_is_not_known_is_not_judged() -> None:
    assert paths("GPU036", on_host(UNKNOWN, gpus())) == []
    assert paths("GPU036", pod(gpus(), volumes=UNKNOWN)) == []
    assert paths("GPU036", on_host("/", container(), tolerations=[UNKNOWN])) == []


@pytest.mark.parametrize("amount", [UNKNOWN, "${GPUS}", "one"])
def test_a_pod_with_gpus_of_an_unknown_number_is_one_with_gpus(amount: Any) -> None:
    def rules(number: Any) -> set[str]:
        elsewhere = {"tolerations": [], "nodeSelector": {"gpu": "t4"}, "nodeName": "gpu-1"}
        spec = on_host("/dev", gpus(number), **elsewhere)["spec"]
        job = resource("Job", "batch/v1", spec={"template": {"spec": spec}})
        return {violation.rule.id for violation in judge(job, CONTEXT)}

    assert {"GPU016", "GPU036", "GPU048"} <= rules(amount)
    assert not {"GPU016", "GPU036", "GPU048"} & rules(0)


def capable(*names: Any) -> dict[str, Any]:
    return {"securityContext": {"capabilities": {"add": list(names)}}}


@pytest.mark.parametrize("source", ["hostPath", "local"])
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/dev/nvidia0", True),
        ("//dev/./", True),
        ("/", True),
        ("/proc/1/root", True),
        ("/run/containerd/containerd.sock", True),
        ("/mnt/disks/a", False),
        ("/var/lib/rancher/k3s/storage/pvc-1_team_a", False),
        ("/opt/local-path-provisioner/pvc-1", False),
        ("/mnt", True),
        ("/mnt/stateful_partition/var", True),
        ("/data", False),
        ("/data/llama3", False),
        ("/database", True),
        ("/var/lib/data", True),
        ("/dev/nvme0n1", True),
        ("", False),
        (UNKNOWN, False),
    ],
)
def test_a_volume_that_is_claimed_leads_to_no_gpus(source: str, path: Any, refused: bool) -> None:
    volume = resource("PersistentVolume", spec={source: {"path": path}})
    assert paths("GPU066", volume) == ([f"spec.{source}.path"] if refused else [])
    assert paths("GPU066", {**volume, "apiVersion": "example.com/v1"}) == []


def test_the_path_of_a_volume_is_shown_cut() -> None:
    volume = resource("PersistentVolume", spec={"local": {"path": "/dev/nvidia" + "0" * 80}})
    (violation,) = judge(volume, CONTEXT)
    assert violation.found == ("/dev/nvidia" + "0" * 80)[:80]


PRIVILEGES: list[tuple[str, Any, bool]] = [
    ("with a GPU", pod(gpus(**PRIVILEGED)), True),
    ("beside one with a GPU", pod(gpus(), container(**PRIVILEGED)), True),
    ("with GPUs of an unknown number", pod(gpus(UNKNOWN, **PRIVILEGED)), True),
    ("with GPUs of an invalid number", pod(gpus("one", **PRIVILEGED)), True),
    ("in an init container", pod(gpus(), initContainers=[container(**PRIVILEGED)]), True),
    ("able to mount", pod(gpus(**capable("SYS_ADMIN"))), True),
    ("able to mount, by its long name", pod(gpus(**capable("NET_ADMIN", "CAP_SYS_ADMIN"))), True),
    ("able to do all", pod(gpus(**capable("all"))), True),
    *(
        (f"with {name}", pod(gpus(**capable(name))), True)
        for name in ("NET_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "BPF", "ipc_lock")
    ),
    ("with DAC_READ_SEARCH", pod(gpus(**capable("CHOWN", "DAC_READ_SEARCH"))), True),
    ("able to pin memory", pod(gpus(**capable("IPC_LOCK"))), False),
    ("within baseline", pod(gpus(**capable("MKNOD", "SYS_CHROOT", "SETPCAP"))), False),
    ("with no capability", pod(gpus(**capable())), False),
    ("capable, without GPUs", pod(container(**capable("SYS_PTRACE"))), False),
    ("unknown capabilities", pod(gpus(**capable(UNKNOWN))), False),
    ("without GPUs", pod(container(**PRIVILEGED)), False),
    ("not privileged", pod(gpus(securityContext={"privileged": False})), False),
    ("of the GPU stack", pod(gpus(**PRIVILEGED), namespace="kube-system"), False),
    ("in an unknown namespace", pod(gpus(**PRIVILEGED), namespace=UNKNOWN), False),
    ("unknown", pod(gpus(securityContext={"privileged": UNKNOWN})), False),
]


@pytest.mark.parametrize(
    ("manifest", "refused"), [r[1:] for r in PRIVILEGES], ids=[r[0] for r in PRIVILEGES]
)
def test_privileged_containers(manifest: Any, refused: bool) -> None:
    assert ("GPU022" in ids(manifest)) == refused


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        (
            "ConfigMap",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "all"}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": "void"}}, []),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": ""}}, []),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": UNKNOWN}}, []),
        ("ConfigMap", {"data": {"A": "all"}}, []),
        ("ConfigMap", {}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "dm9\r\npZA=="}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "none"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "no!ne"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        (
            "Secret",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "bm!9uZQ=="}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": 7}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": UNKNOWN}}, []),
        ("Secret", {"data": {"A": "YWxs"}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"}, "stringData": UNKNOWN}, []),
        (
            "Secret",
            {
                "data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"},
                "stringData": {"NVIDIA_VISIBLE_DEVICES": "none"},
            },
            [],
        ),
        (
            "Secret",
            {
                "data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="},
                "stringData": {"NVIDIA_VISIBLE_DEVICES": "all"},
            },
            ["stringData[NVIDIA_VISIBLE_DEVICES]"],
        ),
        (
            "ConfigMap",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"stringData": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
        (
            "Secret",
            {"stringData": {"NVIDIA_VISIBLE_DEVICES": "0"}},
            ["stringData[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"namespace": "kube-system", "data": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
        ("Service", {"data": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
    ],
)
def test_the_variable_by_reference(kind: str, fields: dict[str, Any], wanted: list[str]) -> None:
    assert paths("GPU035", resource(kind, **fields)) == wanted


@pytest.mark.parametrize(
    "name", ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH"]
)
@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"env": [{"name": "{}", "value": "all"}]}, ["env[0]"]),
        ({"env": [{"name": "{}", "valueFrom": {}}]}, ["env[0]"]),
        ({"env": [{"name": "{}", "value": "none"}]}, []),
        ({"env": [{"name": "{}", "value": UNKNOWN}]}, []),
        ({"env": [{"name": "A{}", "value": "all"}]}, []),
        ({"envFrom": [{"prefix": "NVIDIA_"}]}, ["envFrom[0].prefix"]),
        ({"envFrom": [{"prefix": "{}"}]}, ["envFrom[0].prefix"]),
        ({"envFrom": [{"prefix": "A_"}, {"prefix": ""}]}, []),
    ],
)
def test_a_variable_that_selects_devices(
    name: str, fields: dict[str, list[dict[str, Any]]], wanted: list[str]
) -> None:
    named = {
        field: [
            {k: v.format(name) if isinstance(v, str) else v for k, v in one.items()}
            for one in listed
        ]
        for field, listed in fields.items()
    }
    at = [f"spec.containers[0].{place}" for place in wanted]
    assert paths("GPU017", pod(container(**named))) == at
    assert paths("GPU035", resource("ConfigMap", data={name: "all"})) == [f"data[{name}]"]


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("cdi.k8s.io/train", True),
        ("tencent.com/predicate-time", True),
        ("tencent.com/gpu-assigned", True),
        ("tencent.com/gpu-assigned-0", True),
        ("hami.io/vgpu-node", True),
        ("hami.io/vgpu-time", True),
        ("hami.io/bind-time", True),
        ("hami.io/bind-phase", True),
        ("hami.io/vgpu-devices-to-allocate", True),
        ("hami.io/vgpu-devices-allocated", True),
        ("hami.io/vgpu-mig-allocations", True),
        ("hami.io/amd-devices-to-allocate", True),
        ("hami.io/kunlun-allocated", True),
        ("hami.io/gpu-scheduler-policy", False),
        ("hami.io/node-scheduler-policy", False),
        ("nvidia.com/use-gpuuuid", False),
        ("tencent.com/predicate", False),
        ("example.com/tencent.com/gpu-assigned", False),
        ("xcdi.k8s.io/train", False),
    ],
)
def test_an_annotation_that_assigns_gpus(key: str, refused: bool) -> None:
    manifest = resource("Pod", annotations={"a": "b", key: "1"}, spec={"containers": []})
    assert paths("GPU020", manifest) == ([f"metadata.annotations[{key}]"] if refused else [])
    assert paths("GPU020", resource("Service", annotations={key: "1"})) == []
    assert (
        paths(
            "GPU020", {**manifest, "metadata": {**manifest["metadata"], "namespace": "kube-system"}}
        )
        == []
    )


NODE_NAMESPACES: list[tuple[str, Any, list[str]]] = [
    ("with a GPU", pod(gpus(), hostPID=True), ["spec.hostPID"]),
    ("the network", pod(gpus(), hostNetwork=True), ["spec.hostNetwork"]),
    ("two of them", pod(gpus(), hostIPC=True, hostPID=True), ["spec.hostIPC", "spec.hostPID"]),
    ("in a template", workload("DaemonSet", gpus(), pod_spec={"hostPID": True}),
     ["spec.template.spec.hostPID"]),
    ("without GPUs", pod(container(), hostPID=True), []),
    ("off", pod(gpus(), hostPID=False), []),
    ("not known", pod(gpus(), hostPID=UNKNOWN), []),
    ("within the pod", pod(gpus(), shareProcessNamespace=True), []),
    ("of the GPU stack", pod(gpus(), hostPID=True, namespace="kube-system"), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in NODE_NAMESPACES], ids=[r[0] for r in NODE_NAMESPACES]
)
def test_namespaces_of_the_node(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU067", manifest) == wanted
    assert paths("GPU067", resource("Service")) == [], "it has no pod"


def claim(*requests: Any, **fields: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return resource("ResourceClaim", "resource.k8s.io/v1", spec=spec, **fields)


def exactly(**fields: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", **fields}}


ADMIN = "spec.devices.requests[0].exactly.adminAccess"


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (claim(exactly(adminAccess=True)), [ADMIN]),
        (claim(exactly(), exactly(adminAccess=True)), [ADMIN.replace("[0]", "[1]")]),
        (claim(exactly(adminAccess=False)), []),
        (claim(exactly(adminAccess=UNKNOWN)), []),
        (claim(exactly()), []),
        (claim(exactly(adminAccess=True), namespace="kube-system"), []),
        (pod(gpus()), []),
    ],
)
def test_a_claim_gets_no_devices_that_others_hold(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU068", manifest) == wanted


def annotated(*keys: str, **fields: Any) -> dict[str, Any]:
    made = pod(container(), **fields)
    made["metadata"]["annotations"] = dict.fromkeys(keys, "0.5")
    return made


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (annotated("gpu-fraction"), ["metadata.annotations[gpu-fraction]"]),
        (annotated("gpu-memory"), ["metadata.annotations[gpu-memory]"]),
        (annotated("gpu-memory", namespace="kube-system"), []),
        (annotated("example.com/gpu-memory"), []),
        (pod(container()), []),
        (resource("Service"), []),
    ],
)
def test_shares_by_annotation(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU069", manifest) == wanted
