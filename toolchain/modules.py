"""The Go modules that tools are built from: flags, versions stamped into them, typical times.

A module with ``k8s.io/kubernetes`` replaces each module that its go.mod requires at v0.0.0 by that
module's release, v0.36.3 for v1.36.3. ``go mod tidy -e`` does the rest: without -e it ends at a
test of cadvisor's, which no program imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from . import pins

#: Folder of the go.mod files.
ROOT = Path(__file__).resolve().parent / "go"

#: No DWARF, no symbol table: less to compile and link, and nobody debugs these here.
BUILD_FLAGS = ("-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false")

#: Of containerd what its CRI plugin needs: no snapshotter of its own file system, no tracing.
_CONTAINERD_TAGS = "-tags=no_aufs,no_btrfs,no_devmapper,no_zfs,no_tracing"

#: Served by module proxies, but not in the checksum database; go.sum pins its content.
UNLISTED = "github.com/pulumi/pulumi-kubernetes/provider/v4"

#: The Kubernetes plugin's Go SDK.
SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4"


@dataclass(frozen=True)
class Module:
    """One go.mod under ``toolchain/go``.

    ``stamps``: variables set at link time. ``plugin``: whether the Kubernetes plugin is in it,
    whose main embeds files of its source (:mod:`toolchain.embeds`) and whose SDK goes without its
    kinds (:mod:`toolchain.kinds`). ``seconds``: a cold build on two cores, for estimates.
    """

    name: str
    stamps: Mapping[str, str]
    seconds: int
    plugin: bool = False
    flags: tuple[str, ...] = BUILD_FLAGS

    @property
    def folder(self) -> Path:
        """Where its go.mod lies."""
        return ROOT / self.name

    @property
    def link_flags(self) -> str:
        """The value of ``-ldflags``."""
        stamped = (f"-X {variable}={value}" for variable, value in self.stamps.items())
        return " ".join(("-s", "-w", *stamped))


def kubernetes_version(version: str) -> dict[str, str]:
    """Return the variables that tell Kubernetes' programs which version they are."""
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
        # Without the clouds' service discovery, which promtool never asks here.
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
    *(_containerd(version) for version in pins.CONTAINERD),
)

MODULES: Mapping[str, Module] = MappingProxyType({module.name: module for module in _MODULES})
