"""Files with a SHA-256 checksum, such as NVIDIA's self-extracting installers."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.repository import URL, Sha256
from gpu_rules.faults import refuse, show

_PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+")


def _validate_location(text: str) -> str:
    if URL.fullmatch(text) is None and _PATH.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an https, http or file address, or an absolute path on the host",
            "write a value such as https://mirror.example.org/NVIDIA-Linux-x86_64-595.91.07.run",
        )
    return text


class Archive(Model):
    """A file that is verified by its SHA-256 before use; `locations` are tried in order."""

    locations: tuple[Annotated[StrictStr, AfterValidator(_validate_location)], ...] = Field(
        min_length=1,
        description="a list of addresses, or paths on the host, of the same file",
        examples=["[https://mirror.example.org/NVIDIA-Linux-x86_64-595.91.07.run]"],
    )
    sha256: Sha256 = Field(
        description="the file's sha256, 64 of 0-9 and a-f", examples=["64 of 0-9 and a-f"]
    )


class Runfile(Archive):
    """One of NVIDIA's self-extracting installers.

    `dkms` (driver only): DKMS builds the kernel module again for each new kernel.
    """

    dkms: StrictBool = Field(
        default=True,
        description="true or false: build the module for each new kernel",
        examples=["false"],
    )
