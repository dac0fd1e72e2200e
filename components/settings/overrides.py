"""Sections of the stack file that a pool or a host can override."""

from __future__ import annotations

from pydantic import Field

from components.base.model import Model
from components.settings.hosts.cuda import CudaSettings
from components.settings.hosts.driver import DriverSettings
from components.settings.hosts.kernel import KernelSettings
from components.settings.hosts.runtime import RuntimeSettings
from components.settings.hosts.system import SystemSettings


class Overrides(Model):
    """Complete sections of a pool or a host, in place of the stack's sections.

    `components.loading.inventory.resolved` has merged the stack's values into them. If
    a section is None, the stack's section applies.
    """

    driver: DriverSettings | None = Field(
        default=None, description="a mapping: what differs from the stack's driver"
    )
    kernel: KernelSettings | None = Field(
        default=None, description="a mapping: what differs from the stack's kernel"
    )
    cuda: CudaSettings | None = Field(
        default=None, description="a mapping: what differs from the stack's cuda"
    )
    runtime: RuntimeSettings | None = Field(
        default=None, description="a mapping: what differs from the stack's runtime"
    )
    system: SystemSettings | None = Field(
        default=None, description="a mapping: what differs from the stack's system"
    )
