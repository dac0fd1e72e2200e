"""Step that configures the NVIDIA runtime in CRI-O."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import RUNTIME_PATH, Given, Phase, Step, old_engine, said
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_rules.faults import Fault


def _crio_inputs(host: DesiredHost) -> Given:
    return Given(
        settings={
            "GC_SYSTEMD_CGROUP": said(host.sections.runtime.systemd_cgroup),
            "GC_RUNTIME_PATH": RUNTIME_PATH,
        }
    )


def _judge_crio(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    yield from old_engine(host, facts, facts.crio, (1, 24))


STEP = Step(
    does="sets up the NVIDIA runtime in CRI-O and restarts it",
    given=_crio_inputs,
    phase=Phase.RUNTIME,
    after="toolkit",
    engines=(Engine.CRI_O,),
    files=("library/engine_plain", "crio"),
    disrupts=("GC_SYSTEMD_CGROUP", "GC_RUNTIME_PATH"),
    judge=_judge_crio,
    writes=("/etc/crio/crio.conf.d/99-nvidia.toml",),
)
