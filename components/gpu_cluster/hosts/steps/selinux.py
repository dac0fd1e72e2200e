"""Step that sets the mode of SELinux."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step
from gpu_cluster.settings.hosts.system import Selinux


def _selinux_inputs(host: DesiredHost) -> Given | None:
    mode = host.sections.system.selinux
    return None if mode is Selinux.LEAVE else Given(settings={"GC_SELINUX": mode.value})


STEP = Step(
    does="sets the mode of SELinux",
    given=_selinux_inputs,
    after="proxy",
    writes=("/etc/selinux/config",),
)
