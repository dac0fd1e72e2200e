"""Pinned version, official release and Go package of each tool.

The URLs come from the projects' release pages. kwok publishes no checksums for its binaries
(``hack/releases.sh`` of v0.8.0 uploads only the binaries), and nvidia-ctk is only published in
distribution packages. So these tools are built from source; of nvidia-ctk only the commands that
need no cgo (its NVML binding does). The checksums of Pulumi's archives are downloaded from the same
host as the archives, because the archives on Pulumi's two hosts have differed (pulumi/pulumi issue
9416).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpu_cluster.machine.tool import ToolchainError

from .versions import Range

PULUMI = "3.274.1"
# Kubernetes versions of the embedded control plane, with the Go module from which each is built.
# The first version is the default. The others are only built if `GPU_CLUSTER_KUBERNETES` names
# them. Their ends of support are in components/gpu_cluster/settings/support.yaml.
KUBERNETES_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "1.36.3": "cluster",
        "1.37.2": "kubernetes-1.37",
        "1.35.4": "kubernetes-1.35",
        "1.34.4": "kubernetes-1.34",
    }
)
KUBERNETES = os.environ.get("GPU_CLUSTER_KUBERNETES") or next(iter(KUBERNETES_MODULES))
if KUBERNETES not in KUBERNETES_MODULES:
    raise ToolchainError(
        f"GPU_CLUSTER_KUBERNETES: found {KUBERNETES}, wanted one of "
        f"{', '.join(KUBERNETES_MODULES)}; cure: leave it out, or name one of them"
    )
ETCD = "3.6.8"
KWOK = "0.8.0"
KUBERNETES_PLUGIN = "4.25.0"
COMMAND_PLUGIN = "1.2.1"
NVIDIA_CTK = "1.20.2"
ACTIONLINT = "1.7.12"
CONTAINERD = ("1.7.36", "2.0.11", "2.2.9", "2.3.7", "2.4.2")
PROMETHEUS = "3.13.5"
PULUMI_YAML = "1.30.0"

# Base URLs of the release downloads. Tests replace them with the URL of a test server.
BASES: Mapping[str, str] = MappingProxyType(
    {"github": "https://github.com", "kubernetes": "https://dl.k8s.io"}
)


@dataclass(frozen=True)
class Release:
    """Official download of a tool.

    The two URLs are templates over ``{github}``, ``{kubernetes}``, ``{version}``, ``{os}`` and
    ``{arch}``.

    Attributes:
        url: URL of the tool's archive or executable.
        checksums: URL of the list of checksums.
        archive: Whether ``url`` is an archive that contains the tool.
        systems: Operating systems that the release is published for.
        arch: Architecture names that differ from Go's, by Go's name.
        companions: Other executables of the archive that the tool needs in the same folder.
    """

    url: str
    checksums: str
    archive: bool = True
    systems: tuple[str, ...] = ("linux", "darwin")
    arch: Mapping[str, str] = field(default_factory=dict)
    companions: tuple[str, ...] = ()


@dataclass(frozen=True)
class GoPackage:
    """Go main package from which a tool is built.

    Attributes:
        module: Name of the folder below ``go`` in this package that contains go.mod.
        package: Import path of the main package.
    """

    module: str
    package: str

    @property
    def executable(self) -> str:
        """Return the name of the executable that ``go build`` writes."""
        return self.package.rpartition("/")[2]


@dataclass(frozen=True)
class Pin:
    """Pinned tool: its version, and where it can be found, downloaded or built.

    Attributes:
        name: Name of the executable.
        version: The version that is downloaded or built.
        fits: The versions that are accepted if the tool is found on PATH.
        version_arguments: Arguments that make the tool print its version.
        plugin: For a Pulumi plugin, the gRPC service that returns its version: ``ResourceProvider``
            or ``LanguageRuntime``. Empty for other tools.
        release: The official download, if there is one.
        go: The Go package, if the tool can be built.
        own: Whether this project has its own implementation of the tool.
        systems: Operating systems that the tool runs on.
        on_demand: Whether the tool is only made if a caller names it.
    """

    name: str
    version: str
    fits: Range
    version_arguments: tuple[str, ...] = ("--version",)
    plugin: str = ""
    release: Release | None = None
    go: GoPackage | None = None
    own: bool = False
    systems: tuple[str, ...] = ("linux", "darwin")
    on_demand: bool = False


_PULUMI_ROOT = "{github}/pulumi/pulumi/releases/download/v{version}"
_PULUMI_ARCHIVE = f"{_PULUMI_ROOT}/pulumi-v{{version}}-{{os}}-{{arch}}.tar.gz"
_PULUMI_SUMS = f"{_PULUMI_ROOT}/pulumi-{{version}}-checksums.txt"
_ACTIONLINT_ROOT = "{github}/rhysd/actionlint/releases/download/v{version}"
_PROMETHEUS_ROOT = "{github}/prometheus/prometheus/releases/download/v{version}"
_PULUMI_ARCH = MappingProxyType({"amd64": "x64"})


def _plugin_release(project: str) -> Release:
    root = f"{{github}}/pulumi/pulumi-{project}/releases/download/v{{version}}"
    return Release(
        url=f"{root}/pulumi-resource-{project}-v{{version}}-{{os}}-{{arch}}.tar.gz",
        checksums=f"{root}/pulumi-{project}_{{version}}_checksums.txt",
    )


def _control_plane_pin(name: str) -> Pin:
    url = f"{{kubernetes}}/release/v{{version}}/bin/{{os}}/{{arch}}/{name}"
    return Pin(
        name=name,
        version=KUBERNETES,
        fits=Range(KUBERNETES, f"1.{int(KUBERNETES.split('.')[1]) + 1}.0"),
        release=Release(url, url + ".sha256", archive=False, systems=("linux",)),
        go=GoPackage(KUBERNETES_MODULES[KUBERNETES], f"k8s.io/kubernetes/cmd/{name}"),
    )


def _kwok(name: str) -> Pin:
    return Pin(
        name=name,
        version=KWOK,
        fits=Range(KWOK, "0.9.0"),
        go=GoPackage("cluster", f"sigs.k8s.io/kwok/cmd/{name}"),
    )


def _containerd(version: str) -> Pin:
    """Return the pin of containerd's daemon for one minor version.

    Tests check the configuration of hosts with all of these versions at the same time. The tool's
    name contains the minor version, so that executables of several versions don't collide and none
    of them is taken from PATH.
    """
    major, minor, _ = version.split(".")
    path = "github.com/containerd/containerd" + ("" if major == "1" else "/v2")
    name = f"containerd-{major}.{minor}"
    return Pin(
        name=name,
        version=version,
        fits=Range(version, f"{major}.{int(minor) + 1}.0"),
        go=GoPackage(name, f"{path}/cmd/containerd"),
        systems=("linux",),
        on_demand=True,
    )


_PINS = (
    Pin(
        name="pulumi",
        version=PULUMI,
        fits=Range(PULUMI, "4.0.0"),
        version_arguments=("version",),
        release=Release(_PULUMI_ARCHIVE, _PULUMI_SUMS, arch=_PULUMI_ARCH),
        go=GoPackage("engine", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"),
    ),
    Pin(
        name="pulumi-language-python",
        version=PULUMI,
        fits=Range(PULUMI, "4.0.0"),
        plugin="LanguageRuntime",
        release=Release(
            _PULUMI_ARCHIVE,
            _PULUMI_SUMS,
            arch=_PULUMI_ARCH,
            companions=("pulumi-language-python-exec", "pulumi-analyzer-policy-python"),
        ),
        own=True,
    ),
    Pin(
        # Generates SDKs for the project's own language host; the official host has it built in.
        name="pulumi-generate-python",
        version=PULUMI,
        fits=Range(PULUMI, "4.0.0"),
        go=GoPackage("engine", "./pulumi-generate-python"),
        on_demand=True,
    ),
    Pin(
        name="pulumi-resource-kubernetes",
        version=KUBERNETES_PLUGIN,
        fits=Range(KUBERNETES_PLUGIN, "4.26.0"),
        plugin="ResourceProvider",
        release=_plugin_release("kubernetes"),
        go=GoPackage("cluster", "./pulumi-resource-kubernetes"),
    ),
    Pin(
        name="pulumi-resource-command",
        version=COMMAND_PLUGIN,
        fits=Range(COMMAND_PLUGIN, "1.3.0"),
        plugin="ResourceProvider",
        release=_plugin_release("command"),
        own=True,
    ),
    Pin(
        name="etcd",
        version=ETCD,
        fits=Range(ETCD, "3.7.0"),
        release=Release(
            "{github}/etcd-io/etcd/releases/download/v{version}/etcd-v{version}-{os}-{arch}.tar.gz",
            "{github}/etcd-io/etcd/releases/download/v{version}/SHA256SUMS",
            systems=("linux",),
        ),
        go=GoPackage("cluster", "./etcd"),
    ),
    _control_plane_pin("kube-apiserver"),
    _control_plane_pin("kube-controller-manager"),
    _control_plane_pin("kube-scheduler"),
    _kwok("kwok"),
    _kwok("kwokctl"),
    Pin(
        name="nvidia-ctk",
        version=NVIDIA_CTK,
        fits=Range(NVIDIA_CTK, "1.21.0"),
        go=GoPackage("nvidia", "./nvidia-ctk"),
        systems=("linux",),
    ),
    Pin(
        name="actionlint",
        version=ACTIONLINT,
        fits=Range(ACTIONLINT, "2.0.0"),
        release=Release(
            f"{_ACTIONLINT_ROOT}/actionlint_{{version}}_{{os}}_{{arch}}.tar.gz",
            f"{_ACTIONLINT_ROOT}/actionlint_{{version}}_checksums.txt",
        ),
        go=GoPackage("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    ),
    *(_containerd(version) for version in CONTAINERD),
    Pin(
        name="promtool",
        version=PROMETHEUS,
        fits=Range(PROMETHEUS, "4.0.0"),
        release=Release(
            f"{_PROMETHEUS_ROOT}/prometheus-{{version}}.{{os}}-{{arch}}.tar.gz",
            f"{_PROMETHEUS_ROOT}/sha256sums.txt",
        ),
        go=GoPackage("prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
        on_demand=True,
    ),
    Pin(
        # Runs the programs in YAML that use the component package. A machine with an official
        # Pulumi CLI has it on PATH.
        name="pulumi-language-yaml",
        version=PULUMI_YAML,
        fits=Range(PULUMI_YAML, "2.0.0"),
        plugin="LanguageRuntime",
        go=GoPackage("yaml", "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"),
        on_demand=True,
    ),
)

# All pinned tools by name, in the order in which they are displayed.
PINS: Mapping[str, Pin] = MappingProxyType({pin.name: pin for pin in _PINS})
