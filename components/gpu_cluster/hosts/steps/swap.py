"""Step that turns swap off, as the kubelet requires."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step


def _swap_inputs(host: DesiredHost) -> Given | None:
    return Given() if host.sections.system.swap_off else None


STEP = Step(does="turns swap off", given=_swap_inputs, writes=("/etc/fstab",))
