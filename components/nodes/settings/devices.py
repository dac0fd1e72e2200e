"""Parts of a node's GPUs: MIG devices, and those that get no pods."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from config.model import Model
from config.problem import refuse, show

GPU_LIMIT = 16  # an HGX-2 board set; no NVIDIA server has more

_PROFILE = re.compile(r"[1-9]\d?(c\.[1-9]\d?)?g\.\d{1,3}gb([+-][a-z0-9.]+)*")


def _profile(text: str) -> str:
    if _PROFILE.fullmatch(text) is None:
        raise refuse(
            show(text), "a MIG profile such as 1g.5gb", "write one of `nvidia-smi mig -lgip`"
        )
    return text


Profile = Annotated[StrictStr, AfterValidator(_profile)]
MigCount = Annotated[
    StrictInt, Field(ge=1, le=7, description="a whole number from 1 to 7, devices of one GPU")
]


class UnhealthyDevices(Model):
    """GPUs of one node that get no pods: the list that document 001 keeps on the node itself.

    `uuid` is refused: NVIDIA's plugin has no list of devices to leave out. It gets those that it
    may see, which follow from the index and the number of GPUs, but not from a UUID. `missing`
    counts those that `nvidia-smi -L` no longer shows: they have no index, and those that are there
    are numbered without them.
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
    uuid: tuple[StrictStr, ...] = Field(default=(), description="a list of UUIDs")

    @property
    def count(self) -> int:
        """How many GPUs the node lacks."""
        return len(self.index) + self.missing

    @model_validator(mode="after")
    def _by_index(self) -> UnhealthyDevices:
        if self.uuid:
            raise refuse(
                f"uuid {show(self.uuid[0])}",
                "the GPU's index: no plugin of NVIDIA's reads unhealthyDevices.json, and the GPUs"
                " that remain can be named by index only",
                "write `index` with the number that `nvidia-smi -L` shows before this UUID",
            )
        if len(set(self.index)) != len(self.index) or not self.count:
            raise refuse(
                "an index twice" if self.index else "neither index nor missing",
                "each GPU that is left out once",
                "write index: [3] for one that is there, missing: 1 for one that is off the bus",
            )
        return self
