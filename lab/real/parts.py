"""The real parts: which Go module each is, and what of it is built."""

from __future__ import annotations

from dataclasses import dataclass, field

KUBELET = "1.34.4"
#: From which a cluster is upgraded (`toolchain.pins.KUBERNETES_MODULES` has it too).
EARLIER = "1.33.13"
CONTAINERD = "2.3.1"
PLUGIN = "0.19.3"
TOOLKIT = "1.20.0"
DRA = "0.4.1"
#: Of the device plugin's chart (k8s-device-plugin v0.19.3, deployments/helm/nvidia-device-plugin/
#: Chart.yaml).
NFD = "0.17.3"
#: The commit of release v24.3.0: the module's tags are not Go versions. The public module proxy
#: refuses newer ones.
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


@dataclass(frozen=True)
class Part:
    """Executables of one Go module.

    ``packages``: import paths; ``stamps``: variables set at link time; ``native``: it binds C.
    """

    module: str
    version: str
    packages: tuple[str, ...]
    stamps: dict[str, str] = field(default_factory=dict)
    native: bool = False


PARTS = (
    Part(
        "kubelet",
        KUBELET,
        ("k8s.io/kubernetes/cmd/kubelet",),
        {
            "k8s.io/component-base/version.gitVersion": f"v{KUBELET}",
            "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBELET}",
        },
    ),
    Part(
        "containerd",
        CONTAINERD,
        tuple(
            f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        {f"{_CONTAINERD}/version.Version": f"v{CONTAINERD}"},
    ),
    Part(
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
    Part(
        "toolkit",
        TOOLKIT,
        tuple(
            f"{NVIDIA}/nvidia-container-toolkit/cmd/{name}"
            for name in ("nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk")
        ),
        {_TOOLKIT_VERSION: TOOLKIT},
        native=True,
    ),
    Part(
        "dra",
        DRA,
        (f"{_DRA_MODULE}/cmd/gpu-kubelet-plugin",),
        {f"{_DRA_MODULE}/internal/info.version": f"v{DRA}"},
        native=True,
    ),
    Part(
        "nfd",
        NFD,
        tuple(f"{_NFD_MODULE}/cmd/{name}" for name in ("nfd-worker", "nfd-master", "nfd-gc")),
        {
            f"{_NFD_MODULE}/pkg/version.version": f"v{NFD}",
            # As its image has it (Makefile, HOSTMOUNT_PREFIX); its chart mounts folders there.
            f"{_NFD_MODULE}/pkg/utils/hostpath.pathPrefix": "/host-",
        },
    ),
    Part(
        "operator",
        OPERATOR,
        (f"{OPERATOR_MODULE}/cmd/gpu-operator",),
        {f"{OPERATOR_MODULE}/internal/info.version": OPERATOR_RELEASE},
    ),
)


def _kubernetes(version: str) -> dict[str, str]:
    """Stamps of Kubernetes' programs: kubeadm compares minor versions, of itself too.

    Source: kubernetes v1.34 cmd/kubeadm/app/constants/constants.go, init.
    """
    return {
        "k8s.io/component-base/version.gitVersion": f"v{version}",
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": version.split(".")[1],
        "k8s.io/client-go/pkg/version.gitVersion": f"v{version}",
    }


KUBEADM = Part(
    "kubeadm",
    KUBELET,
    tuple(f"k8s.io/kubernetes/cmd/{name}" for name in ("kubeadm", "kubectl")),
    _kubernetes(KUBELET),
)
NODE = ("kubelet", "kubeadm", "kubectl")
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
EARLIER_PROGRAMS = Part(
    "kubernetes-1.33",
    EARLIER,
    tuple(f"k8s.io/kubernetes/cmd/{name}" for name in (*NODE, *CONTROL_PLANE)),
    _kubernetes(EARLIER),
)
MOCK = Part("mock", NVML, (".", "./probe"), native=True)
