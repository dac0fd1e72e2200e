"""Step that makes the driver ignore excluded GPUs."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step


def _excluded_inputs(host: DesiredHost) -> Given | None:
    left_out = host.excluded_gpus
    return Given(settings={"GC_EXCLUDED": ",".join(left_out)}) if left_out else None


STEP = Step(
    does="makes the driver ignore excluded GPUs",
    given=_excluded_inputs,
    after="nouveau",
    disrupts=("GC_EXCLUDED",),
    writes=("/etc/modprobe.d/gpu-cluster-excluded.conf",),
)
