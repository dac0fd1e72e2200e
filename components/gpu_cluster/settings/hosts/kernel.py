"""Section `kernel` of the stack file: a pinned kernel release on hosts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.repository import Repositories

_FLAVOR = r"kernel(?:\d+(?:\.\d+)*)?(?:-[a-z0-9]+)*"
_RELEASE = r"\d+\.\d+(\.\d+)?[A-Za-z0-9._+~-]*"


class KernelSettings(Model):
    """Settings of the pinned kernel; `release` None leaves the kernel as it is.

    With a release, the program installs its packages and makes it GRUB's default entry. If `hold`
    is true, system upgrades install no other kernel. A host that runs another kernel needs a
    reboot.
    """

    release: (
        Annotated[
            StrictStr,
            AfterValidator(pattern(_RELEASE, "a release as `uname -r` shows it", "6.1.0-41-amd64")),
        ]
        | None
    ) = Field(
        default=None, description="a release as `uname -r` shows it", examples=["6.1.0-41-amd64"]
    )
    flavor: Annotated[
        StrictStr,
        AfterValidator(pattern(_FLAVOR, "the name of a kernel's package", "kernel-uek")),
    ] = Field(
        default="kernel",
        description="dnf: a kernel's package, such as kernel, kernel-uek, kernel6.12 or kernel-lt",
        examples=["kernel-uek"],
    )
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    hold: StrictBool = Field(
        default=True,
        description="true or false: upgrades of the system leave the kernel alone",
        examples=["false"],
    )
