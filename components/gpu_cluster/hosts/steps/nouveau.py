"""Step that keeps other drivers' kernel modules from using the host's GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import Given, Step, fault
from gpu_rules.faults import Fault, FaultSeverity

MODULES = ("nouveau", "nova_core")


def _nouveau_inputs(host: DesiredHost) -> Given | None:
    return Given(settings={"GC_BLACKLIST": " ".join(MODULES)}) if host.role.has_gpus else None


def _judge_nouveau(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    for module in facts.loaded if host.role.has_gpus else ():
        found, cure = f"module {module} loaded", "reboot the host after it is prepared"
        yield fault(host, found, "the NVIDIA driver alone", cure, FaultSeverity.WARNING)


STEP = Step(
    does="keeps other drivers off the GPUs",
    given=_nouveau_inputs,
    after="firewall",
    judge=_judge_nouveau,
    writes=("/etc/modprobe.d/gpu-cluster-blacklist.conf",),
)
