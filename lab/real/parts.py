"""Real components that the tests build: their Go modules, versions and Go packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster_lab.toolchain import pins
from gpu_cluster_lab.toolchain.modules import MODULES, kubernetes_version
from gpu_cluster_lab.toolchain.versions import numbers

KUBELET = pins.KUBERNETES
"""Version of the kubelet, equal to the control plane's (`GPU_CLUSTER_KUBERNETES`)."""


def before(version: str) -> str:
    """Return the Kubernetes version from which the tests upgrade a cluster, or ""."""
    minor = numbers(version)[1] - 1
    return next((each for each in pins.KUBERNETES_MODULES if numbers(each)[1] == minor), "")


EARLIER = before(KUBELET)
CONTAINERD = max(pins.CONTAINERD, key=numbers)
PLUGIN = "0.19.3"
TOOLKIT = pins.NVIDIA_CTK
#: Version of NVIDIA's DRA driver. Version 0.5.0 requires github.com/NVIDIA/go-nvfm, which the
#: public Go module proxy rejects.
DRA = "0.4.1"
#: Version of Node Feature Discovery that is a dependency of the device plugin's chart
#: (k8s-device-plugin v0.19.3, deployments/helm/nvidia-device-plugin/Chart.yaml).
NFD = "0.17.3"
# Newest CRI-O version that the public Go module proxy has, of those that were tried.
CRIO = "1.36.3"
#: Commit of GPU Operator release v24.3.0. A commit is needed because the module's tags are not Go
#: versions. The public Go module proxy rejects newer releases.
OPERATOR = "1.8.3-0.20240429200431-0fe1e8db32b0"
OPERATOR_RELEASE = "v24.3.0"
NVML = "0.13.3-1"

NVIDIA = "github.com/NVIDIA"
PLUGIN_MODULE = f"{NVIDIA}/k8s-device-plugin"
OPERATOR_MODULE = f"{NVIDIA}/gpu-operator"
_NFD_MODULE = "sigs.k8s.io/node-feature-discovery"
_DRA_MODULE = "sigs.k8s.io/dra-driver-nvidia-gpu"
_CONTAINERD = "github.com/containerd/containerd/v2"
_TOOLKIT_VERSION = f"{NVIDIA}/nvidia-container-toolkit/internal/info.version"


ROOT = Path(__file__).parent / "go"


@dataclass(frozen=True)
class RealPart:
    """Go module of which one or several programs are built.

    Attributes:
        module: Name of the module's folder.
        version: Version of the component.
        packages: Import paths of the executables.
        stamps: Go variables with the version, which are set at link time.
        native: True if the module uses cgo.
        tags: Build tags, separated by commas.
    """

    module: str
    version: str
    packages: tuple[str, ...]
    stamps: dict[str, str] = field(default_factory=dict)
    native: bool = False
    tags: str = ""

    @property
    def folder(self) -> Path:
        """Return the folder with the go.mod file that pins the module.

        The folder is in the toolchain if the toolchain builds the module too, otherwise in `ROOT`.
        """
        tool = MODULES.get(self.module)
        return tool.folder if tool else ROOT / self.module


NODE = ("kubelet", "kubeadm", "kubectl")
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def kubernetes(version: str, *names: str) -> RealPart:
    """Return the Go module of a Kubernetes version.

    It builds the named programs; by default it builds all programs.
    """
    packages = tuple(f"k8s.io/kubernetes/cmd/{name}" for name in names or (*NODE, *CONTROL_PLANE))
    module = pins.KUBERNETES_MODULES[version]
    return RealPart(module, version, packages, kubernetes_version(version))


KUBERNETES = kubernetes(KUBELET, *NODE)
PARTS = (
    KUBERNETES,
    RealPart(
        f"containerd-{CONTAINERD.rpartition('.')[0]}",
        CONTAINERD,
        tuple(
            f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        {f"{_CONTAINERD}/version.Version": f"v{CONTAINERD}"},
    ),
    RealPart(
        "plugin",
        PLUGIN,
        tuple(
            f"{PLUGIN_MODULE}/cmd/{name}"
            for name in (
                "nvidia-device-plugin",
                "gpu-feature-discovery",
                "config-manager",
                "mps-control-daemon",
            )
        ),
        {f"{PLUGIN_MODULE}/internal/info.version": f"v{PLUGIN}"},
        native=True,
    ),
    RealPart(
        "toolkit",
        TOOLKIT,
        tuple(
            f"{NVIDIA}/nvidia-container-toolkit/cmd/{name}"
            for name in ("nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk")
        ),
        {_TOOLKIT_VERSION: TOOLKIT},
        native=True,
    ),
    RealPart(
        "dra",
        DRA,
        (f"{_DRA_MODULE}/cmd/gpu-kubelet-plugin",),
        {f"{_DRA_MODULE}/internal/info.version": f"v{DRA}"},
        native=True,
    ),
    RealPart(
        "nfd",
        NFD,
        tuple(f"{_NFD_MODULE}/cmd/{name}" for name in ("nfd-worker", "nfd-master", "nfd-gc")),
        {
            f"{_NFD_MODULE}/pkg/version.version": f"v{NFD}",
            # The official image sets this path prefix (Makefile, HOSTMOUNT_PREFIX), because its
            # chart mounts the host's folders there.
            f"{_NFD_MODULE}/pkg/utils/hostpath.pathPrefix": "/host-",
        },
    ),
    RealPart(
        "operator",
        OPERATOR,
        (f"{OPERATOR_MODULE}/cmd/gpu-operator", f"{OPERATOR_MODULE}/validator"),
        {f"{OPERATOR_MODULE}/internal/info.version": OPERATOR_RELEASE},
    ),
)


MOCK = RealPart("mock", NVML, (".", "./probe"), native=True)
ARITHMETIC = RealPart("arithmetic", "0.36.3", (".",))
"""Kubernetes' own functions for quantities, requests, names, taints and node selectors."""
HAMI = "2.10.0"
"""Release of HAMi that the simulator plays."""
ETCDCTL = RealPart("etcdctl", "3.6.8", ("go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3"))
"""etcd's client and its tool for files, as in the image of etcd; the version is that of `etcd`."""
KUBE_VIP = RealPart(
    "kube-vip", "1.2.2", ("github.com/kube-vip/kube-vip",), {"main.Version": "v1.2.2"}
)
"""kube-vip, which gives an address to one of several control planes."""
#: Only tests of hosts build CRI-O. The tags leave out signatures by gpgme and the storage driver
#: btrfs, which need C libraries.
CRI_O = RealPart(
    "crio",
    CRIO,
    ("github.com/cri-o/cri-o/cmd/crio",),
    native=True,
    tags="containers_image_openpgp,exclude_graphdriver_btrfs",
)


def versions() -> str:
    """Return a text with the version of each component, named by its first program."""
    return ", ".join(f"{part.packages[0].rpartition('/')[2]} {part.version}" for part in PARTS)
