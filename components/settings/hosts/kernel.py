"""A pinned kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from components.base.model import Model
from components.base.versions import pattern
from components.settings.hosts.repository import Repositories

_RELEASE = r"\d+\.\d+(\.\d+)?[A-Za-z0-9._+~-]*"


class KernelFlavor(StrEnum):
    """Packages of an RPM host's kernel: the distribution's, or one of elrepo.org's two."""

    KERNEL = "kernel"
    KERNEL_LT = "kernel-lt"
    KERNEL_ML = "kernel-ml"


class KernelSettings(Model):
    """`release` None leaves the kernel as it is.

    With a release: its packages are installed, it becomes GRUB's default entry, and `hold` keeps
    upgrades of the system from bringing another one. A host that runs another kernel asks for a
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
    flavor: KernelFlavor = Field(
        default=KernelFlavor.KERNEL,
        description="dnf: kernel, kernel-lt or kernel-ml",
        examples=["kernel"],
    )
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: where it comes from"
    )
    hold: StrictBool = Field(
        default=True, description="true or false: upgrades of the system leave the kernel alone"
    )
