"""Step that configures the NVIDIA runtime in containerd."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import RUNTIME_PATH, Given, Phase, Step, old_engine, said
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_rules.faults import Fault


def _containerd_inputs(host: DesiredHost) -> Given:
    return Given(
        settings={
            "GC_SYSTEMD_CGROUP": said(host.sections.runtime.systemd_cgroup),
            "GC_RUNTIME_PATH": RUNTIME_PATH,
            "GC_CDI": said(host.sections.runtime.cdi),
        }
    )


def _judge_containerd(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    yield from old_engine(host, facts, facts.containerd, (1, 6))


STEP = Step(
    does="sets up the NVIDIA runtime in containerd and restarts it",
    given=_containerd_inputs,
    phase=Phase.RUNTIME,
    after="toolkit",
    engines=(Engine.CONTAINERD,),
    files=("library/engine_plain", "containerd", "library/containerd_config"),
    disrupts=("GC_SYSTEMD_CGROUP", "GC_RUNTIME_PATH", "GC_CDI"),
    judge=_judge_containerd,
    writes=(
        "/etc/containerd/config.toml",
        "/etc/containerd/conf.d/99-nvidia.toml",
    ),
)
