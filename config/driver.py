"""Where the NVIDIA driver comes from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from config.model import Model, Text
from config.versions import pattern

_VERSION = r"\d{3}\.\d{1,3}(\.\d{1,2})?"


class DriverSource(StrEnum):
    """`preinstalled`: on the host, only checked. `operator`: the GPU Operator's container."""

    PREINSTALLED = "preinstalled"
    OPERATOR = "operator"


class Driver(Model):
    """`version` is what hosts must have (preinstalled) or get (operator); None takes any."""

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

    @property
    def managed_by_operator(self) -> bool:
        """Whether the GPU Operator brings the driver (its value `driver.enabled`)."""
        return self.source is DriverSource.OPERATOR
