"""Step that configures the NVIDIA runtime in K3s and RKE2.

K3s and RKE2 choose CDI and the cgroup driver themselves.
"""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Phase, Step
from gpu_cluster.settings.hosts.runtime import Engine


def _k3s_inputs(host: DesiredHost) -> Given:
    return Given(settings={"GC_ENGINE": host.sections.runtime.engine.value})


STEP = Step(
    does="sets up the NVIDIA runtime in K3s or RKE2",
    given=_k3s_inputs,
    phase=Phase.RUNTIME,
    after="toolkit",
    engines=(Engine.K3S, Engine.RKE2),
    files=("library/engine_plain", "k3s"),
    disrupts=("GC_ENGINE",),
)
