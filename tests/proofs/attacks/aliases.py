"""Other names of what the rules forbid to pods with GPUs: host paths, volumes, capabilities.

The paths are those of Linux (proc(5), file-hierarchy(7)), of Kubernetes' distributions and of
container engines. Each stands for the same file or folder as a path that a deny list would name, or
lets its reader start containers, log in to the node, or load drivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

THROUGH_PROC: Final = (
    *("/proc", "/proc/1", "/proc/1/root", "/proc/1/root/", "/proc/1/root/dev/nvidia0"),
    *("/proc/1/task/1/root", "/proc/1/task/1/root/dev/nvidia0", "/proc/1/task/1/cwd"),
    *("/proc/1/task/1/root/run/containerd/containerd.sock", "/proc/1/task", "/proc/1/task/1"),
    *("/proc/1/cwd", "/proc/1/fd", "/proc/1/fd/3", "/proc/1/map_files", "/proc/1/ns"),
    *("/proc/self/root", "/proc/self/cwd/dev", "/proc/thread-self/root", "/proc/self/fd"),
    *("/proc/self/task/1/root", "/proc/42/cwd", "/proc/42/task/43/fd/9", "/proc/sys/kernel"),
    *("/proc/sys", "/proc/bus", "/proc/driver/nvidia", "/proc/sysrq-trigger"),
)
WRITTEN_OTHERWISE: Final = (
    *("//dev//nvidia0", "/./dev/nvidia0", "/dev/./nvidia0", "/dev/", "/dev//", "/dev/."),
    *("/.", "//", "/./", "/run//containerd//containerd.sock", "/run/./docker.sock", "dev/nvidia0"),
    *("/dev.", "/run.", "/etc/.", "/data/./x", "/data.", "/data/...", "/DATA", "/data /x"),
)
BY_LINKS: Final = (
    *("/var/run", "/var/run/docker.sock", "/var/run/containerd/containerd.sock", "/var/lock"),
    *("/var/run/crio/crio.sock", "/var/run/nvidia", "/var/run/cdi", "/var/run/nri", "/lib"),
    *("/lib64", "/bin", "/sbin", "/usr/lib/systemd", "/dev/fd", "/dev/disk/by-id", "/dev/log"),
    *("/sys/class/drm", "/sys/bus/pci/devices", "/sys/dev/char", "/mnt/stateful_partition/var"),
    *("/mnt/stateful_partition/home/kubernetes", "/mnt/stateful_partition/etc", "/home"),
    *("/sysroot", "/sysroot/ostree/deploy", "/host", "/rootfs", "/.bottlerocket/rootfs", "/local"),
)
TWINS: Final = (
    # Static pods and the configuration of container engines: K3s, RKE2, k0s, MicroK8s, kubeadm.
    *("/var/lib/rancher/k3s/agent/pod-manifests", "/var/lib/rancher/rke2/agent/pod-manifests"),
    *("/var/lib/rancher/k3s/agent/etc/containerd", "/var/lib/rancher/rke2/agent/etc/containerd"),
    *("/var/lib/rancher/k3s/server/manifests", "/var/lib/rancher/rke2/server/manifests"),
    *("/var/lib/rancher/k3s/server/token", "/var/lib/rancher", "/etc/rancher/k3s"),
    *("/etc/rancher/node", "/var/lib/k0s/manifests", "/var/lib/k0s/kubelet", "/etc/k0s"),
    *("/run/k0s/containerd.sock", "/run/k3s/containerd/containerd.sock", "/run/k3s"),
    *("/var/snap/microk8s/common/run/containerd.sock", "/var/snap/microk8s/current/args"),
    *("/etc/kubernetes", "/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/srv/kubernetes"),
    *("/etc/containerd", "/etc/crio", "/etc/crio/crio.conf.d", "/etc/docker", "/etc/containers"),
    *("/run/docker", "/run/docker/containerd/containerd.sock", "/run/crio", "/run/containerd"),
    *("/run/containerd/fifo", "/run/cri-dockerd.sock", "/run/podman/podman.sock", "/run/runc"),
    *("/var/lib/containerd", "/var/lib/docker", "/var/lib/containers", "/var/lib/cri-dockerd"),
    *("/etc/cni/net.d", "/opt/cni/bin", "/var/lib/cni", "/etc/nvidia-container-runtime"),
    *("/usr/local/nvidia/toolkit", "/usr/local/nvidia", "/opt/nvidia", "/run/nvidia/mps"),
    *("/tmp/nvidia-mps", "/tmp", "/var/tmp", "/run/nvidia-persistenced", "/usr/bin"),
    *("/var/lib/kubelet", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins"),
    *("/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/pods", "/var/lib/kubelet/pki"),
    *("/var/data/kubelet", "/var/lib/gpu-cluster", "/etc/cdi", "/run/cdi", "/run/nri"),
)
NODE: Final = (
    *("/", "/dev", "/etc", "/run", "/sys", "/boot", "/root", "/root/.ssh", "/usr", "/opt", "/var"),
    *("/etc/systemd/system", "/run/systemd/private", "/run/systemd/system", "/run/udev"),
    *("/run/dbus/system_bus_socket", "/etc/cron.d", "/etc/cron.daily", "/var/spool/cron"),
    *("/etc/passwd", "/etc/shadow", "/etc/sudoers.d", "/etc/ssh", "/etc/ld.so.preload"),
    *("/etc/profile.d", "/etc/init.d", "/etc/modprobe.d", "/etc/udev/rules.d", "/lib/modules"),
    *("/sys/fs/cgroup", "/sys/kernel", "/sys/kernel/debug", "/sys/bus/pci", "/sys/firmware"),
    *("/sys/module", "/var/log", "/var/log/pods", "/home/kubernetes/bin", "/home/ubuntu/.ssh"),
)
DEVICES: Final = (
    *("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1"),
    *("/dev/dri/card0", "/dev/dri/renderD128", "/dev/kfd", "/dev/char/195:0", "/dev/vfio/vfio"),
    *("/dev/nvhost-ctrl", "/dev/nvmap", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/null"),
    *("/dev/sda", "/dev/sda1", "/dev/nvme0n1", "/dev/nvme0n1p1", "/dev/vda", "/dev/dm-0"),
    *("/dev/mapper/root", "/dev/block/8:0", "/dev/loop0", "/dev/raw/raw1", "/dev/disk/by-uuid/1"),
    *("/dev/cpu/0/msr", "/dev/kvm", "/dev/fuse", "/dev/infiniband/uverbs0", "/dev/shm/x"),
    *("/dev/hugepages", "/dev/pts", "/dev/bus/usb"),
)
BELOW_ALLOWED: Final = (
    *("/data/link", "/data/link/dev", "/data01/models/link", "/mnt/data/link", "/mnt/nvme0"),
    *("/mnt/k8s-disks", "/mnt/k8s-disks/0/link", "/mnt/disks/ssd0/link", "/models/link/etc"),
    *("/root/models/link", "/root/.cache", "/raid", "/local-storage/link", "/mnt"),
    *("/var/lib/rancher/k3s/storage/pvc-1/link", "/opt/local-path-provisioner/pvc-1/link"),
)
PATHS: Final = (
    *(*THROUGH_PROC, *WRITTEN_OTHERWISE, *BY_LINKS, *TWINS, *NODE, *DEVICES, *BELOW_ALLOWED),
)
"""Host paths that no pod with GPUs may mount by default."""

FOR_VOLUMES: Final = (
    "/data/",
    "/models/",
    "/root/models/",
    "/mnt/",
    "/raid",
    "/tmp/",
    "/opt/local",
)
"""Beginnings of paths that only pods may not mount; a PersistentVolume may be there."""

CAPABILITIES: Final = (
    *("ALL", "all", "SYS_ADMIN", "CAP_SYS_ADMIN", "sys_admin", "SYS_MODULE", "SYS_PTRACE"),
    *("SYS_RAWIO", "DAC_READ_SEARCH", "BPF", "PERFMON", "CHECKPOINT_RESTORE", "SYS_BOOT"),
    *("NET_ADMIN", "NET_RAW", "SYS_RESOURCE", "SYS_TIME", "SYS_NICE", "MAC_ADMIN", "SYSLOG"),
    *("MAC_OVERRIDE", "LINUX_IMMUTABLE", "AUDIT_CONTROL", "CAP_IPC_LOCK", "ipc_lock", "chown"),
)
"""Capabilities beyond the Pod Security Standard baseline, and unusual spellings."""

ANNOTATIONS: Final = (
    *("cdi.k8s.io/gpu", "cdi.k8s.io/nvidia.com_gpu", "cdi.k8s.io/a.b-c"),
    *("hami.io/vgpu-devices-to-allocate", "hami.io/bind-phase", "hami.io/amd-devices-allocated"),
    *("tencent.com/gpu-assigned", "tencent.com/predicate-gpu-idx-0"),
)
"""Annotations by which devices come to a pod, past its requests."""
VARIABLES: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH")
"""Environment variables by which devices come to a container."""

HOST: Final = "/dev/nvidia0"


def _mount(**fields: Any) -> Json:
    return {"name": "v", "mountPath": "/v", **fields}


VOLUMES: Final[dict[str, tuple[Json, Json]]] = {
    "subPath of the root": ({"hostPath": {"path": "/"}}, _mount(subPath="dev/nvidia0")),
    "subPath of a folder": ({"hostPath": {"path": "/dev"}}, _mount(subPath="nvidia0")),
    "subPathExpr of the root": ({"hostPath": {"path": "/"}}, _mount(subPathExpr="dev/$(NAME)")),
    "subPathExpr of /proc": ({"hostPath": {"path": "/proc"}}, _mount(subPathExpr="$(NAME)/root")),
    "a read-only mount": ({"hostPath": {"path": "/proc/1/root"}}, _mount(readOnly=True)),
    "a recursive read-only mount": (
        {"hostPath": {"path": "/run"}},
        _mount(readOnly=True, recursiveReadOnly="IfPossible"),
    ),
    "mount propagation": ({"hostPath": {"path": "/var/lib/kubelet"}}, _mount()),
    **{
        f"type {kind}": ({"hostPath": {"path": path, "type": kind}}, _mount())
        for kind, path in (
            ("Socket", "/run/containerd/containerd.sock"),
            ("CharDevice", HOST),
            ("BlockDevice", "/dev/nvme0n1"),
            ("File", "/etc/shadow"),
            ("FileOrCreate", "/etc/cron.d/a"),
            ("DirectoryOrCreate", "/var/lib/rancher/k3s/agent/pod-manifests"),
        )
    },
    "a CSI volume of a device": (
        {"csi": {"driver": "hostpath.csi.k8s.io", "volumeAttributes": {"path": HOST}}},
        _mount(),
    ),
    "a CSI volume of the host's root": (
        {"csi": {"driver": "a.example.com", "volumeAttributes": {"source": "/proc/1/root/etc"}}},
        _mount(),
    ),
    "a CSI volume of a socket": (
        {"csi": {"driver": "a.example.com", "volumeAttributes": {"a": "//run/docker.sock"}}},
        _mount(),
    ),
    **{
        f"a CSI volume of {path}": (
            {"csi": {"driver": "a.example.com", "volumeAttributes": {"source": path}}},
            _mount(),
        )
        for path in (
            *("/data/../dev/nvidia0", "/data/..", "/../dev/nvidia0", "//data//../dev/nvidia0"),
            *(
                "file:///dev/nvidia0",
                "file:/dev/nvidia0",
                "bind:/proc/1/root",
                "localhost:/dev/kfd",
            ),
            "unix:///run/containerd/containerd.sock",
        )
    },
    "a Flexvolume of a device": (
        {"flexVolume": {"driver": "example.com/bind", "options": {"path": HOST}}},
        _mount(),
    ),
    "beside a projected volume": ({"hostPath": {"path": "/etc/kubernetes"}}, _mount()),
}
"""Volumes of a pod, and how its container mounts them."""

REFUSED_BY_THE_SERVER: Final[dict[str, tuple[Json, Json]]] = {
    "a host path with ..": ({"hostPath": {"path": "/data/../dev/nvidia0"}}, _mount()),
    "a subPath with ..": ({"hostPath": {"path": "/data"}}, _mount(subPath="../dev/nvidia0")),
    "a subPathExpr with ..": ({"hostPath": {"path": "/data"}}, _mount(subPathExpr="../$(NAME)")),
    "an absolute subPath": ({"hostPath": {"path": "/data"}}, _mount(subPath="/dev/nvidia0")),
    "a projected path with ..": (
        {
            "projected": {
                "sources": [
                    {"configMap": {"name": "a", "items": [{"key": "a", "path": "../../dev"}]}}
                ]
            }
        },
        _mount(),
    ),
}
"""Volumes that the API server itself refuses, before any policy."""


def pod(name: str, volume: Json, mount: Json, **container: Any) -> Json:
    """Return a pod with a GPU and a volume."""
    resources = {
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "aliases"},
        "spec": {
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": "a",
                    "image": "a:1",
                    "resources": resources,
                    "env": [{"name": "NAME", "valueFrom": field}],
                    "volumeMounts": [mount],
                    **container,
                }
            ],
            "volumes": [{"name": "v", **volume}],
        },
    }


def persistent_volume(name: str, source: Json) -> Json:
    """Return a PersistentVolume with a source."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"guarded": "aliases"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **source,
        },
    }


def aliases() -> Iterator[tuple[str, Json, str]]:
    """Yield each alias: what it is, an object that uses it, and the rule that refuses it."""
    empty: tuple[Json, Json] = ({"emptyDir": {}}, _mount())
    for number, path in enumerate(PATHS):
        yield path, pod(f"a{number}", {"hostPath": {"path": path}}, _mount()), "GPU036"
        if not path.startswith(FOR_VOLUMES) and "/k3s/storage/" not in path:
            for source in ("hostPath", "local"):
                made = persistent_volume(f"a{number}", {source: {"path": path}})
                yield f"PersistentVolume {source} {path}", made, "GPU066"
    yield (
        "a block volume",
        persistent_volume("block", {"volumeMode": "Block", "local": {"path": "/dev/nvme0n1"}}),
        "GPU066",
    )
    csi = {"driver": "a.example.com", "volumeHandle": "a", "volumeAttributes": {"path": HOST}}
    yield "a CSI PersistentVolume", persistent_volume("csi", {"csi": csi}), "GPU066"
    flex = {"driver": "example.com/bind", "options": {"path": HOST}}
    yield "a Flexvolume", persistent_volume("flex", {"flexVolume": flex}), "GPU066"
    back = {**csi, "volumeAttributes": {"path": "/data/../dev/nvidia0"}}
    yield "a CSI PersistentVolume with ..", persistent_volume("back", {"csi": back}), "GPU066"
    for number, (what, (volume, mount)) in enumerate(VOLUMES.items()):
        yield what, pod(f"v{number}", volume, mount), "GPU036"
    for number, name in enumerate(CAPABILITIES):
        added = {"capabilities": {"add": [name]}}
        yield f"capability {name}", pod(f"c{number}", *empty, securityContext=added), "GPU022"
    for number, name in enumerate(ANNOTATIONS):
        made = pod(f"m{number}", *empty)
        made["metadata"]["annotations"] = {name: "nvidia.com/gpu=all"}
        yield f"annotation {name}", made, "GPU020"
    for number, name in enumerate(VARIABLES):
        value = [{"name": name, "value": "all"}]
        yield f"variable {name}", pod(f"e{number}", *empty, env=value), "GPU017"
    for number, name in enumerate(("hostPID", "hostIPC", "hostNetwork")):
        made = pod(f"n{number}", *empty)
        made["spec"][name] = True
        yield name, made, "GPU067"
