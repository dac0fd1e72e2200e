"""Step that installs and pins a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.compatibility import OLDEST_KERNEL, version
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import Given, Step, fault, repositories, said
from gpu_rules.faults import Fault


def _kernel_inputs(host: DesiredHost) -> Given | None:
    kernel = host.sections.kernel
    if kernel.release is None:
        return None
    settings = {
        "GC_KERNEL_RELEASE": kernel.release,
        "GC_KERNEL_FLAVOR": kernel.flavor,
        "GC_KERNEL_HOLD": said(kernel.hold),
    }
    rows = repositories("kernel", kernel.repository)
    return Given(settings=settings, repositories=rows, runs=2)


def _judge_kernel(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield a fault if the declared kernel, or else the running one, is too old.

    A declared kernel replaces an old running kernel, so only the declared one is checked.
    """
    kernel = host.sections.kernel.release or facts.kernel
    if version(kernel) < OLDEST_KERNEL:
        cure = "upgrade it, or declare kernel.release"
        yield fault(host, f"kernel {kernel}", "4.18 or later", cure)


STEP = Step(
    does="installs a kernel",
    given=_kernel_inputs,
    after="packages",
    disrupts=("GC_KERNEL_RELEASE", "GC_KERNEL_FLAVOR"),
    judge=_judge_kernel,
)
