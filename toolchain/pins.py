"""What is pinned: each tool's version, its official release, its Go package.

Sources of the addresses: the projects' release pages. kwok publishes no checksums with its binaries
(``hack/releases.sh`` of v0.8.0 uploads the binaries alone) and nvidia-ctk comes in distribution
packages only, so these are built: of nvidia-ctk only what needs no cgo (its NVML binding does).
Checksums of Pulumi's archives are read where the archives are: the copies on the two hosts have
differed (pulumi/pulumi issue 9416).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .tool import ToolchainError
from .versions import Range

PULUMI = "3.274.1"
#: Control planes by version: the module that each is built from. The first is the usual one, the
#: others are made on demand, where `GPU_CLUSTER_KUBERNETES` names them. Ends of support:
#: components/settings/support.yaml.
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

#: Where releases are downloaded from; tests put their own server here.
BASES: Mapping[str, str] = MappingProxyType(
    {"github": "https://github.com", "kubernetes": "https://dl.k8s.io"}
)


@dataclass(frozen=True)
class Release:
    """One official download.

    ``url`` and ``checksums`` are templates over ``{github}``, ``{kubernetes}``, ``{version}``,
    ``{os}`` and ``{arch}``. ``archive``: whether ``url`` is an archive that holds the tool.
    ``systems``: operating systems it is published for. ``arch``: architecture names that differ
    from Go's. ``companions``: further executables of the archive that the tool needs beside it.
    """

    url: str
    checksums: str
    archive: bool = True
    systems: tuple[str, ...] = ("linux", "darwin")
    arch: Mapping[str, str] = field(default_factory=dict)
    companions: tuple[str, ...] = ()


@dataclass(frozen=True)
class GoPackage:
    """A main package: the folder of its go.mod under ``toolchain/go`` and its import path."""

    module: str
    package: str

    @property
    def executable(self) -> str:
        """What ``go build`` calls its result."""
        return self.package.rpartition("/")[2]


@dataclass(frozen=True)
class Pin:
    """One tool: what is built or fetched (``version``), what is taken from PATH (``fits``).

    ``version_arguments``: how it tells its version; ``plugin``: it is asked over gRPC instead
    (``ResourceProvider`` or ``LanguageRuntime``). ``own``: the project has a substitute for it.
    ``systems``: operating systems that it runs on. ``on_demand``: had only where it is asked for by
    name.
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


def _control_plane(name: str) -> Pin:
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
    """The daemon of one minor version, against which hosts' configuration is proved.

    Releases come in archives with the same names inside, and the tests want all versions at once,
    so none is taken from PATH: the name has the minor version in it.
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
    _control_plane("kube-apiserver"),
    _control_plane("kube-controller-manager"),
    _control_plane("kube-scheduler"),
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
)

#: Every tool by name, in the order in which they are shown.
PINS: Mapping[str, Pin] = MappingProxyType({pin.name: pin for pin in _PINS})
