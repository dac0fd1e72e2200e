"""Docker's own settings on hosts with Docker as their container engine."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.user import User
from gpu_rules.faults import refuse, show

_MIRROR = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(/[A-Za-z0-9._~/-]*)?")
_PATH = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")


def _validate_mirror(text: str) -> str:
    if _MIRROR.fullmatch(text) is None:
        raise refuse(
            show(text),
            "the address of a registry",
            "write a value such as https://mirror.example.org",
        )
    return text


def _validate_data_path(text: str) -> str:
    if _PATH.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an absolute path of letters, digits, '.', '_' and '-', no part beginning with '.'",
            "write a value such as /data/docker",
        )
    return text


class StorageDriver(StrEnum):
    """Storage driver of Docker.

    `leave`: Docker selects the driver. `overlay2`: the program sets it if the file system supports
    it, and reports a finding otherwise.
    """

    LEAVE = "leave"
    OVERLAY2 = "overlay2"


class Forward(StrEnum):
    """Policy of the iptables chain FORWARD.

    Docker sets the policy to DROP, which blocks the traffic of pods in other networks.
    """

    ACCEPT = "accept"
    LEAVE = "leave"


class Docker(Model):
    """Settings of Docker.

    `dataRoot` is the directory of images and containers; existing data is moved to this directory.
    """

    registry_mirrors: tuple[Annotated[StrictStr, AfterValidator(_validate_mirror)], ...] = Field(
        default=(), description="a list of addresses", examples=[["https://mirror.example.org"]]
    )
    data_root: Annotated[StrictStr, AfterValidator(_validate_data_path)] | None = Field(
        default=None, description="an absolute path", examples=["/data/docker"]
    )
    storage_driver: StorageDriver = Field(
        default=StorageDriver.OVERLAY2, description="overlay2 or leave", examples=["overlay2"]
    )
    members: tuple[User, ...] = Field(
        default=(), description="a list of users for the group docker", examples=[["alice"]]
    )
    forward: Forward = Field(
        default=Forward.ACCEPT, description="accept or leave", examples=["accept"]
    )
