"""Go modules from which tools are built: build flags, versions to set, typical build times.

A go.mod that requires ``k8s.io/kubernetes`` must replace each module that Kubernetes' go.mod
requires at v0.0.0 with the module's release, for example v0.36.3 for v1.36.3. ``go mod tidy -e``
adds the remaining requirements. Without -e it stops at a test of cadvisor, which no program
imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from . import pins

# Folder with the go.mod files of all modules.
ROOT = Path(__file__).resolve().parent / "go"

# Flags that omit DWARF debug data (the symbol table is omitted at link time). This makes compiling
# and linking faster, and nobody debugs these builds.
BUILD_FLAGS = ("-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false")

# Build tags that reduce containerd to the parts that its CRI plugin needs: no snapshotters for
# aufs, btrfs, devmapper and zfs, and no tracing.
_CONTAINERD_TAGS = "-tags=no_aufs,no_btrfs,no_devmapper,no_zfs,no_tracing"

# Import path of the Kubernetes plugin's Go module. Module proxies have it, but Go's checksum
# database doesn't, so go.sum pins its content.
UNLISTED = "github.com/pulumi/pulumi-kubernetes/provider/v4"

# Import path of the Kubernetes plugin's Go SDK.
SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4"


@dataclass(frozen=True)
class Module:
    """Go module below ``embedded/gpu_cluster_lab/toolchain/go`` from which tools are built.

    Attributes:
        name: Name of the folder that contains go.mod.
        stamps: Go variables to set at link time, with their values.
        seconds: Typical duration of a full build on two cores, for estimates.
        plugin: Whether the module contains the Kubernetes plugin. Its build embeds generated files
            (`gpu_cluster_lab.toolchain.embeds`) and uses a reduced SDK
            (`gpu_cluster_lab.toolchain.kinds`).
        flags: Flags of ``go build``.
    """

    name: str
    stamps: Mapping[str, str]
    seconds: int
    plugin: bool = False
    flags: tuple[str, ...] = BUILD_FLAGS

    @property
    def folder(self) -> Path:
        """Return the folder that contains the module's go.mod."""
        return ROOT / self.name

    @property
    def link_flags(self) -> str:
        """Return the value for the flag ``-ldflags`` of ``go build``."""
        stamped = (f"-X {variable}={value}" for variable, value in self.stamps.items())
        return " ".join(("-s", "-w", *stamped))


def kubernetes_version(version: str) -> dict[str, str]:
    """Return the Go variables that hold the version of Kubernetes programs, with their values."""
    major, minor, _ = version.split(".")
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{key}": value for package in packages for key, value in values.items()}


def _containerd(version: str) -> Module:
    major, minor, _ = version.split(".")
    path = "github.com/containerd/containerd" + ("" if major == "1" else "/v2")
    return Module(
        name=f"containerd-{major}.{minor}",
        stamps={f"{path}/version.Version": f"v{version}"},
        seconds=80,
        flags=(*BUILD_FLAGS, _CONTAINERD_TAGS),
    )


(_WITH_PLUGIN, _CLUSTER), *_OTHERS = pins.KUBERNETES_MODULES.items()

_MODULES = (
    Module(
        name="engine",
        stamps={"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": f"v{pins.PULUMI}"},
        seconds=300,
    ),
    Module(
        name=_CLUSTER,
        stamps={
            **kubernetes_version(_WITH_PLUGIN),
            "sigs.k8s.io/kwok/pkg/consts.Version": f"v{pins.KWOK}",
            f"{UNLISTED}/pkg/version.Version": pins.KUBERNETES_PLUGIN,
        },
        seconds=480,
        plugin=True,
    ),
    *(
        Module(name=name, stamps=kubernetes_version(version), seconds=310)
        for version, name in _OTHERS
    ),
    Module(
        # The build tag remove_all_sd omits Prometheus' service discovery, which promtool does not
        # need here.
        name="prometheus",
        stamps={"github.com/prometheus/common/version.Version": pins.PROMETHEUS},
        seconds=240,
        flags=(*BUILD_FLAGS, "-tags=remove_all_sd"),
    ),
    Module(
        name="nvidia",
        stamps={"main.version": pins.NVIDIA_CTK},
        seconds=10,
    ),
    Module(
        name="actionlint",
        stamps={"github.com/rhysd/actionlint.version": pins.ACTIONLINT},
        seconds=10,
    ),
    Module(
        name="yaml",
        stamps={"github.com/pulumi/pulumi-yaml/pkg/version.Version": f"v{pins.PULUMI_YAML}"},
        seconds=150,
    ),
    *(_containerd(version) for version in pins.CONTAINERD),
)

MODULES: Mapping[str, Module] = MappingProxyType({module.name: module for module in _MODULES})
