"""Where the NVIDIA driver comes from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from config.image import Repository
from config.model import Model, Text, Truth
from config.problem import refuse, show
from config.versions import pattern

_VERSION = r"\d{3}\.\d{1,3}(\.\d{1,2})?|\d{3}"


class DriverSource(StrEnum):
    """`preinstalled`: on the host, only checked. `operator`: the GPU Operator's container."""

    PREINSTALLED = "preinstalled"
    OPERATOR = "operator"


class KernelModule(StrEnum):
    """Which of NVIDIA's kernel modules a driver container builds; `auto` by the GPU's kind."""

    AUTO = "auto"
    OPEN = "open"
    PROPRIETARY = "proprietary"


class Driver(Model):
    """`version` is what hosts must have (preinstalled) or get (operator); None takes any.

    With `source: operator` only: `kernelModuleType`; `precompiled`, modules built and signed for
    one kernel, whose `version` is a branch such as 595; `resource`, an NVIDIADriver object in
    place of the policy's driver section; `repository` and `image`, for drivers that a site builds
    itself, as vGPU guests need.
    """

    source: DriverSource = Field(
        default=DriverSource.PREINSTALLED,
        description="preinstalled or operator",
        examples=["preinstalled"],
    )
    version: (
        Annotated[
            Text,
            AfterValidator(pattern(_VERSION, "a driver version such as 595.91.07", "595.91.07")),
        ]
        | None
    ) = Field(
        default=None, description="a driver version such as 595.91.07", examples=["595.91.07"]
    )
    kernel_module_type: KernelModule = Field(
        default=KernelModule.AUTO, description="auto, open or proprietary", examples=["auto"]
    )
    precompiled: Truth = Field(default=False, description="true or false", examples=["false"])
    resource: Truth = Field(default=False, description="true or false", examples=["false"])
    repository: Repository | None = Field(
        default=None,
        description="a registry and path such as registry.example.com/nvidia",
        examples=["registry.example.com/nvidia"],
    )
    image: Text | None = Field(
        default=None, min_length=1, description="an image's name", examples=["driver"]
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
        if self.precompiled and self.version is not None and not branch:
            raise refuse(
                f"precompiled with version {show(self.version)}",
                "a branch, as the precompiled images are tagged",
                f'write "{self.version.split(".")[0]}"',
            )
        if self.precompiled and self.kernel_module_type is KernelModule.PROPRIETARY:
            raise refuse(
                "precompiled with kernelModuleType proprietary",
                "precompiled modules as their branch has them",
                'write "kernelModuleType: auto"',
            )
        return self

    @property
    def managed_by_operator(self) -> bool:
        """Whether the GPU Operator brings the driver (its value `driver.enabled`)."""
        return self.source is DriverSource.OPERATOR
