"""Sections that a pool and a host can override."""

from __future__ import annotations

from pydantic import Field

from components.base.model import Model
from components.settings.hosts.cuda import Cuda
from components.settings.hosts.driver import Driver
from components.settings.hosts.kernel import Kernel
from components.settings.hosts.runtime import Runtime
from components.settings.hosts.system import System


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
