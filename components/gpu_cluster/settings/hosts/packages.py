"""Section `packages` of the stack file: packages of the operating system on hosts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.repository import Repositories

PackageName = Annotated[
    StrictStr,
    AfterValidator(pattern(r"[A-Za-z0-9][A-Za-z0-9+._-]*", "a package's name", "pciutils")),
]

BUILD = ("gcc", "make", "dkms", "pciutils")
"""Packages that build kernel modules: compiler, make and DKMS; `lspci` lists the devices.

Source: NVIDIA Driver Installation Guide r595, pre-installation.
"""


class PackagesSettings(Model):
    """Settings of packages that hosts get in addition to those of the driver.

    A driver that this program installs brings the kernel headers and the packages of `BUILD`. The
    packages stay on a host that leaves the stack. With `remove`, the packages that this stack
    installed are removed.
    """

    build: StrictBool = Field(
        default=False,
        description="true or false: headers of the running kernel, gcc, make, dkms, pciutils",
        examples=["false"],
    )
    install: tuple[PackageName, ...] = Field(
        default=(), description="a list of package names", examples=["[nfs-common]"]
    )
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    remove: StrictBool = Field(
        default=False,
        description="true or false: uninstall the packages when the host or the setting is removed",
        examples=["false"],
    )
    lock_seconds: StrictInt = Field(
        default=120,
        ge=1,
        le=3600,
        description="a whole number from 1 to 3600, seconds to wait for the package manager's lock",
        examples=[120],
    )
