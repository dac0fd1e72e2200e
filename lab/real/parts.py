"""The real parts: which Go module each is, and what of it is built."""

from __future__ import annotations

from dataclasses import dataclass, field

KUBELET = "1.34.4"
CONTAINERD = "2.3.1"
PLUGIN = "0.19.3"
TOOLKIT = "1.20.0"
DRA = "0.4.1"
#: The commit of release v24.3.0: the module's tags are not Go versions. The public module proxy
#: refuses newer ones.
OPERATOR = "1.8.3-0.20240429200431-0fe1e8db32b0"
OPERATOR_RELEASE = "v24.3.0"
NVML = "0.13.3-1"

NVIDIA = "github.com/NVIDIA"
PLUGIN_MODULE = f"{NVIDIA}/k8s-device-plugin"
OPERATOR_MODULE = f"{NVIDIA}/gpu-operator"
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
        "operator",
        OPERATOR,
        (f"{OPERATOR_MODULE}/cmd/gpu-operator",),
        {f"{OPERATOR_MODULE}/internal/info.version": OPERATOR_RELEASE},
    ),
)
KUBEADM = Part(
    "kubeadm",
    KUBELET,
    ("k8s.io/kubernetes/cmd/kubeadm",),
    {
        "k8s.io/component-base/version.gitVersion": f"v{KUBELET}",
        # kubeadm compares minor versions (cmd/kubeadm/app/constants/constants.go, init).
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": KUBELET.split(".")[1],
        "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBELET}",
    },
)
MOCK = Part("mock", NVML, (".", "./probe"), native=True)
