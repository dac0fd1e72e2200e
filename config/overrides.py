"""Sections that a pool and a host can override."""

from __future__ import annotations

from pydantic import Field

from config.cuda import Cuda
from config.driver import Driver
from config.kernel import Kernel
from config.model import Model
from config.runtime import Runtime
from config.system import System


class Overrides(Model):
    """Sections of the stack, each whole (`config.inventory.resolved`), or None: as the stack's."""

    driver: Driver | None = Field(
        default=None, description="a mapping: what differs from the stack's driver"
    )
    kernel: Kernel | None = Field(
        default=None, description="a mapping: what differs from the stack's kernel"
    )
    cuda: Cuda | None = Field(
        default=None, description="a mapping: what differs from the stack's cuda"
    )
    runtime: Runtime | None = Field(
        default=None, description="a mapping: what differs from the stack's runtime"
    )
    system: System | None = Field(
        default=None, description="a mapping: what differs from the stack's system"
    )
