"""Section `driver` of the stack file: where the NVIDIA driver comes from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator
from pydantic.alias_generators import to_camel

from gpu_cluster.base.address import Address
from gpu_cluster.base.image import Repository
from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_cluster.settings.hosts.runfile import Runfile
from gpu_rules.faults import refuse, show

DIGEST = f"sha256:{'0' * 64}"
_VERSION = r"\d{3}\.\d{1,3}(\.\d{1,2})?|\d{3}"


class DriverSource(StrEnum):
    """Source of the NVIDIA driver.

    `package`: the host's package manager. `runfile`: NVIDIA's self-extracting installer.
    `preinstalled`: the driver is already on the host and is only checked. `operator`: a container
    of the GPU Operator. `daemonset`: a driver installer in the cluster. With the last three sources
    this program installs no driver on the host.
    """

    PACKAGE = "package"
    RUNFILE = "runfile"
    PREINSTALLED = "preinstalled"
    OPERATOR = "operator"
    DAEMONSET = "daemonset"


ON_HOSTS_ONLY = (
    *("repository", "hold", "persistence", "fabric_manager", "imex_nodes", "remove_earlier"),
)
"""Fields that have no effect if this program installs no driver on the hosts."""
OPERATOR_ONLY = ("precompiled", "resource", "image_repository", "image", "digest")
"""Fields that have no effect unless the GPU Operator installs the driver."""
_ON_HOSTS = frozenset({DriverSource.PACKAGE, DriverSource.RUNFILE})
_IN_CONTAINER = frozenset({DriverSource.OPERATOR, DriverSource.DAEMONSET})
SOURCES_OF: Mapping[str, frozenset[DriverSource]] = {
    **dict.fromkeys(ON_HOSTS_ONLY, _ON_HOSTS),
    **dict.fromkeys(OPERATOR_ONLY, frozenset({DriverSource.OPERATOR})),
    "runfile": frozenset({DriverSource.RUNFILE}),
    "remove_earlier": _ON_HOSTS | _IN_CONTAINER,
    "kernel_module_type": _ON_HOSTS | {DriverSource.OPERATOR},
}
"""Sources with which a field has an effect; fields that are not listed have it with all."""


class FabricManager(StrEnum):
    """When Fabric Manager runs; `auto` means on hosts with NVSwitches."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class KernelModule(StrEnum):
    """Kind of NVIDIA's kernel modules.

    `open`: for Turing and newer GPUs, and the only kind for Blackwell and newer GPUs.
    `proprietary`: for older GPUs. `auto`: `proprietary` if a GPU is older than Turing, else `open`.
    """

    AUTO = "auto"
    OPEN = "open"
    PROPRIETARY = "proprietary"


class DriverSettings(Model):
    """Settings of the NVIDIA driver.

    `version` is the driver version that hosts must have or get. None accepts any version, except
    with a runfile.

    Only for the sources `package` and `runfile`: `repository`, `runfile`, `hold`, `persistence`,
    `fabricManager`, `imexNodes` and `removeEarlier`. `removeEarlier` allows the removal of NVIDIA
    packages and runfile drivers of another version; without it they are an error. With the sources
    `operator` and `daemonset`, `removeEarlier` removes the host's own driver and CUDA packages,
    whose kernel modules conflict with those of the driver container. `imexNodes` is for hosts that
    share an NVLink domain (GB200 NVL72): each pool or host lists all hosts of its domain, including
    the host itself.

    Only for the source `operator`: `precompiled` uses modules that are built and signed for one
    kernel, and its `version` is a branch such as 595, or any version of an own image. `resource`
    creates an NVIDIADriver object in place of the driver section of the ClusterPolicy.
    `imageRepository` and `image` select a driver image that a site builds itself, as vGPU guests
    need. `digest` selects the image by digest and requires that all nodes run the same operating
    system; without it the operator uses a tag, which its publisher may move.
    """

    source: DriverSource = Field(
        default=DriverSource.PREINSTALLED,
        description="package, runfile, preinstalled, operator or daemonset",
        examples=["preinstalled"],
    )
    version: (
        Annotated[
            StrictStr,
            AfterValidator(pattern(_VERSION, "a driver version such as 595.91.07", "595.91.07")),
        ]
        | None
    ) = Field(
        default=None, description="a driver version such as 595.91.07", examples=["595.91.07"]
    )
    kernel_module_type: KernelModule = Field(
        default=KernelModule.AUTO, description="auto, open or proprietary", examples=["auto"]
    )
    precompiled: StrictBool = Field(default=False, description="true or false", examples=["false"])
    resource: StrictBool = Field(default=False, description="true or false", examples=["false"])
    image_repository: Repository | None = Field(
        default=None,
        description="a registry and path such as registry.example.com/nvidia",
        examples=["registry.example.com/nvidia"],
    )
    image: StrictStr | None = Field(
        default=None, min_length=1, description="an image's name", examples=["driver"]
    )
    digest: (
        Annotated[
            StrictStr, AfterValidator(pattern(r"sha256:[0-9a-f]{64}", "a digest sha256:…", DIGEST))
        ]
        | None
    ) = Field(default=None, description="a digest such as sha256:…", examples=[DIGEST])

    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    runfile: Runfile | None = Field(default=None, description="a mapping with locations and sha256")
    hold: StrictBool = Field(
        default=True,
        description="true or false: upgrades of the system leave the driver alone",
        examples=["false"],
    )
    persistence: StrictBool = Field(
        default=True, description="true or false: the persistence daemon runs", examples=["false"]
    )
    fabric_manager: FabricManager = Field(
        default=FabricManager.AUTO, description="auto, on or off", examples=["auto"]
    )
    imex_nodes: tuple[Address, ...] = Field(
        default=(),
        description="a list of addresses: the hosts whose GPUs share an NVLink domain",
        examples=["[192.0.2.11, 192.0.2.12]"],
    )
    remove_earlier: StrictBool = Field(
        default=False,
        description="true or false: other NVIDIA drivers on the host are removed",
        examples=["true"],
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        branch = self.version is not None and "." not in self.version
        if branch and not self.precompiled:
            raise refuse(
                f"the branch {show(self.version)} without precompiled",
                "a whole driver version such as 595.91.07",
                'write the whole version, or "precompiled: true" with source operator',
            )
        # NVIDIA tags its precompiled driver images by driver branch. A user's own image may have
        # any tag, which the operator uses unchanged (gpu-operator v26.7.0,
        # api/nvidia/v1alpha1/nvidiadriver_types.go, GetPrecompiledImagePath).
        has_own_image = self.image is not None or self.image_repository is not None
        if self.precompiled and self.version is not None and not branch and not has_own_image:
            raise refuse(
                f"precompiled with version {show(self.version)}",
                "a branch, as NVIDIA's precompiled images are tagged",
                f"write \"version: '{self.version.split('.')[0]}'\", or name your own image by "
                "imageRepository",
            )
        if self.precompiled and self.digest is not None:
            raise refuse(
                "precompiled with digest",
                "only one of the two: precompiled takes an image for each kernel",
                "remove digest",
            )
        if self.precompiled and self.kernel_module_type is KernelModule.PROPRIETARY:
            raise refuse(
                "precompiled with kernelModuleType proprietary",
                "kernelModuleType auto, because a branch's precompiled modules have a fixed type",
                'write "kernelModuleType: auto"',
            )
        return self

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        fields, ignored = type(self).model_fields, dict[str, list[str]]()
        for name, sources in SOURCES_OF.items():
            if self.source not in sources and getattr(self, name) != fields[name].default:
                ignored.setdefault(" or ".join(sorted(sources)), []).append(to_camel(name))
        ignored.pop(
            DriverSource.RUNFILE, None
        )  # The validator `_runfile_is_declared` refuses this combination.
        if ignored:
            names = ", ".join(name for settings in ignored.values() for name in settings)
            raise refuse(
                f"{names}, which source {self.source} does not use",
                "; ".join(
                    f"{', '.join(settings)} only with source {source}"
                    for source, settings in ignored.items()
                ),
                f"remove {names}, or write another source",
            )
        return self

    @model_validator(mode="after")
    def _runfile_is_declared(self) -> Self:
        if (self.source is DriverSource.RUNFILE) != (self.runfile is not None):
            raise refuse(
                f"source {self.source} with{'out' if self.runfile is None else ''} runfile",
                "runfile with source runfile only",
                "add runfile: {locations: [...], sha256: ...}"
                if self.runfile is None
                else "remove runfile, or write source: runfile",
            )
        if self.runfile is not None and self.version is None:
            cure = 'add "version: 595.91.07"; the name of the runfile has its version'
            raise refuse("a runfile without version", "the version in the runfile", cure)
        return self

    @property
    def managed_by_operator(self) -> bool:
        """Return True if the GPU Operator installs the driver (chart value `driver.enabled`)."""
        return self.source is DriverSource.OPERATOR

    @property
    def by_preparation(self) -> bool:
        """Return True if this program installs the driver on hosts over SSH."""
        return self.source in (DriverSource.PACKAGE, DriverSource.RUNFILE)

    @property
    def in_container(self) -> bool:
        """Return True if a container installs the driver on the hosts."""
        return self.source in (DriverSource.OPERATOR, DriverSource.DAEMONSET)

    @property
    def managed_by_daemonset(self) -> bool:
        """Return True if an installer in a DaemonSet installs the driver."""
        return self.source is DriverSource.DAEMONSET
