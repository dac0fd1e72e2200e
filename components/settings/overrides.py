"""Sections that a pool and a host can override."""

from __future__ import annotations

from pydantic import Field

from components.hosts.settings.cuda import Cuda
from components.hosts.settings.driver import Driver
from components.hosts.settings.kernel import Kernel
from components.hosts.settings.runtime import Runtime
from components.hosts.settings.system import System
from components.settings.base.model import Model


class Overrides(Model):
    """Sections of the stack, each whole (`inventory.resolved`), or None: as the stack's."""

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
