"""Step that installs the CUDA Toolkit on a host."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import Given, Step, places, repositories
from gpu_cluster.hosts.steps.driver import cuda_needs
from gpu_cluster.settings.hosts.cuda import CudaSource
from gpu_rules.faults import Fault


def _cuda_inputs(host: DesiredHost) -> Given | None:
    cuda = host.sections.cuda
    if not host.role.has_gpus or cuda.source is CudaSource.NONE:
        return None
    version, runfile = cuda.version or "", cuda.runfile
    return Given(
        settings={
            "GC_CUDA_SOURCE": cuda.source.value,
            "GC_CUDA_VERSION": version,
            "GC_CUDA_PACKAGES": f"cuda-toolkit-{version.replace('.', '-')}",
            "GC_CUDA_SHA256": runfile.sha256 if runfile else "",
        },
        lists={"each_cuda_location": places(runfile.locations if runfile else ())},
        repositories=repositories("cuda", cuda.repository),
        runs=2,
    )


def _judge_cuda(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    if host.role.has_gpus:
        driver = host.sections.driver.version or facts.driver or ""
        yield from cuda_needs(host, driver, "cuda.version", host.sections.cuda.version or "")


STEP = Step(does="installs the CUDA Toolkit", given=_cuda_inputs, after="driver", judge=_judge_cuda)
