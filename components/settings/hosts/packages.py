"""Packages of the operating system: what builds kernel modules, and whatever else is wanted."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from components.base.model import Model
from components.base.versions import pattern
from components.settings.hosts.repository import Repositories

PackageName = Annotated[
    StrictStr,
    AfterValidator(pattern(r"[A-Za-z0-9][A-Za-z0-9+._-]*", "a package's name", "pciutils")),
]

BUILD = ("gcc", "make", "dkms", "pciutils")
"""NVIDIA Driver Installation Guide r595, pre-installation: compiler, make, DKMS; lspci to look."""


class PackagesSettings(Model):
    """Beside the kernel's headers and the packages of `BUILD`, which a driver on the host brings.

    Packages stay on a host that leaves the stack, unless `remove`; then those go that the stack
    brought.
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
        default=Repositories(), description="a mapping with apt and dnf: where they come from"
    )
    remove: StrictBool = Field(
        default=False,
        description="true or false: what was installed goes with the host or its declaration",
        examples=["false"],
    )
    lock_seconds: StrictInt = Field(
        default=120,
        ge=1,
        le=3600,
        description="a whole number from 1 to 3600, seconds to wait for the package manager's lock",
        examples=[120],
    )
