"""Section `cuda` of the stack file: the CUDA toolkit on hosts.

GPU pods contain their own CUDA libraries. A host needs the toolkit only to compile CUDA programs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_cluster.settings.hosts.runfile import Runfile
from gpu_rules.faults import refuse


class CudaSource(StrEnum):
    """Source of the CUDA toolkit; `none` installs no toolkit.

    The driver inside a toolkit runfile is never installed.
    """

    NONE = "none"
    PACKAGE = "package"
    RUNFILE = "runfile"


class CudaSettings(Model):
    """Settings of the CUDA toolkit; `version` is major and minor, as in /usr/local/cuda-12.8."""

    source: CudaSource = Field(
        default=CudaSource.NONE, description="none, package or runfile", examples=["none"]
    )
    version: (
        Annotated[
            StrictStr, AfterValidator(pattern(r"\d{2}\.\d", "a version such as 12.8", "12.8"))
        ]
        | None
    ) = Field(default=None, description="a version such as 12.8", examples=['"12.8"'])
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    runfile: Runfile | None = Field(default=None, description="a mapping with locations and sha256")

    @model_validator(mode="after")
    def _whole(self) -> CudaSettings:
        if (self.source is CudaSource.NONE) != (self.version is None):
            raise refuse(
                f"source {self.source} with version {self.version}",
                "a version with source package or runfile only",
                'add "version: 12.8", or write "source: none"'
                if self.version is None
                else 'remove version, or write "source: package"',
            )
        if (self.source is CudaSource.RUNFILE) != (self.runfile is not None):
            raise refuse(
                f"source {self.source} with{'out' if self.runfile is None else ''} runfile",
                "runfile with source runfile only",
                'add runfile: {locations: [...], sha256: ...}, or write "source: package"'
                if self.runfile is None
                else 'remove runfile, or write "source: runfile"',
            )
        return self
