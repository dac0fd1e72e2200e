"""Step that loads kernel modules now and at each boot."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step


def _modules_inputs(host: DesiredHost) -> Given | None:
    modules = host.sections.system.modules
    return Given(settings={"GC_MODULES": " ".join(modules)}) if modules else None


STEP = Step(
    does="loads kernel modules at each boot",
    given=_modules_inputs,
    after="swap",
    writes=("/etc/modules-load.d/gpu-cluster.conf",),
)
