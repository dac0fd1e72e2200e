"""MIG profiles of a node's GPUs, and unhealthy GPUs that get no pods."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_rules.faults import refuse, show

GPU_LIMIT = 16  # The HGX-2 board set has 16 GPUs; no NVIDIA server has more.

_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEXES = re.compile(r"index ([0-9]{1,3}(?:, [0-9]{1,3}){0,15})", re.ASCII)
_PROFILE = re.compile(r"[1-9]\d?(c\.[1-9]\d?)?g\.\d{1,3}gb([+-][a-z0-9.]+)*")


def _validate_mig_profile(text: str) -> str:
    if _PROFILE.fullmatch(text) is None:
        raise refuse(
            show(text),
            "a MIG profile such as 1g.5gb",
            "write a profile that `nvidia-smi mig -lgip` prints",
        )
    return text


def _validate_gpu_uuid(text: str) -> str:
    if _UUID.fullmatch(text) is None:
        raise refuse(
            show(text),
            "the UUID of a whole GPU",
            "write it as `nvidia-smi -L` shows it, GPU-… with 36 characters after the first dash",
        )
    return text


Uuid = Annotated[StrictStr, AfterValidator(_validate_gpu_uuid)]
Profile = Annotated[StrictStr, AfterValidator(_validate_mig_profile)]
MigCount = Annotated[
    StrictInt, Field(ge=1, le=7, description="a whole number from 1 to 7, devices of one GPU")
]


def recorded_indexes(text: str) -> tuple[int, ...]:
    """Return the indexes in the text of an `UnhealthyDevices`, which a node's validation records.

    Args:
        text: The text, perhaps without its end. Empty: the node left no GPU out.
    """
    match = _INDEXES.match(text)
    return tuple(map(int, match[1].split(", "))) if match else ()


class UnhealthyDevices(Model):
    """Unhealthy GPUs of one node, which get no pods.

    Alibaba Cloud's device plugin keeps the same list in a file on the node.

    `uuid`: GPUs that the host's driver excludes from its next start on, even if they are missing
    from the PCI bus. `index`: GPUs that are hidden from the device plugin; NVIDIA's plugin has no
    list of devices to exclude, so it gets the list of the devices that it may see. `missing`: the
    number of GPUs that `nvidia-smi -L` does not show and `uuid` does not name. Indexes count only
    the GPUs that `nvidia-smi -L` shows.
    """

    index: tuple[Annotated[StrictInt, Field(ge=0, le=GPU_LIMIT)], ...] = Field(
        default=(),
        description="a list of indexes, as `nvidia-smi -L` counts them",
        examples=["[3]"],
    )
    missing: StrictInt = Field(
        default=0,
        ge=0,
        le=GPU_LIMIT,
        description="a whole number: GPUs that are off the bus",
        examples=[1],
    )
    uuid: tuple[Uuid, ...] = Field(
        default=(),
        max_length=GPU_LIMIT,
        description="a list of UUIDs, as `nvidia-smi -L` shows them",
        examples=["[GPU-…]"],
    )

    def __str__(self) -> str:
        """Return which GPUs are left out, the same text for each order, such as `index 2, 3`."""
        parts = [
            f"index {', '.join(map(str, sorted(self.index)))}" if self.index else "",
            f"{self.missing} missing" if self.missing else "",
            f"uuid {', '.join(sorted(self.uuid))}" if self.uuid else "",
        ]
        return "; ".join(filter(None, parts))

    @property
    def count(self) -> int:
        """Return the number of unhealthy GPUs of the node."""
        return len(self.index) + self.hidden

    @property
    def hidden(self) -> int:
        """Return the number of GPUs that the node's driver does not show."""
        return self.missing + len(self.uuid)

    @model_validator(mode="after")
    def _each_once(self) -> UnhealthyDevices:
        twice = any(len(set(listed)) != len(listed) for listed in (self.index, self.uuid))
        if twice or not self.count:
            raise refuse(
                "a GPU twice" if twice else "neither uuid nor index nor missing",
                "each excluded GPU, named once",
                "write uuid: [GPU-…] or index: [3] for a GPU on the PCI bus, or missing: 1 for a "
                "GPU that is off the bus",
            )
        return self
