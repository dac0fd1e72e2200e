"""Run this project on this machine's GPUs (`make test-gpu`).

A control plane, a kubelet, containerd and NVIDIA's device plugin are started in Linux namespaces of
this machine, with the machine's own driver and devices. Then `up` counts the GPUs, and a CUDA
kernel runs on every GPU. Everything is removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.observed import hardware
from gpu_cluster.hosts.observed.probe import parse, probe
from gpu_cluster.loading.loader import load
from gpu_cluster.machine.folders import cache_dir
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import hosts
from gpu_cluster_lab.simulator.control_plane import ControlPlane, SimulatorError
from gpu_cluster_lab.simulator.hardware import hardware_of
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.hosts.model import HostError
from gpu_cluster_lab.simulator.marks import GPU
from gpu_cluster_lab.simulator.ports import free_ports
from lab.real import build, cgroups, image, objects, stack
from lab.real.build import BuildError
from lab.real.host_gpus import HostGpus
from lab.real.lab import LOCK_LIMIT, Json, Lab
from lab.real.node import Node, RealError
from lab.real.parts import PARTS

NAME = "gpu-host-proof"
NODE = "gpu-host"
MODULES = (*(part.module for part in PARTS[:2]), "plugin", "toolkit", "mock")
"""Modules of the components that run on the node: kubelet, containerd, plugin, toolkit, probe."""
COMPILE_LIMIT = 300.0
"""Timeout in seconds for compiling the CUDA program."""
TESTS: Json = {
    "copy": {
        "image": image.IMAGE,
        "command": ["/cuda-samples/sample", "copy"],
        "gpus": 1,
        "pattern": "# Copied, GB/s : {figure}",
        "minimum": 1,
        "memoryGi": 1,
        "timeoutSeconds": 60,
    }
}
"""User-defined tests of the stack, which run only where a step names them."""


def main() -> int:
    """Run the steps of `make test-gpu` and print a line for each; return 1 if a step fails."""
    gpus, problem = HostGpus.find(), build.missing()
    if problem or not gpus:
        problem = problem or "`nvidia-smi -L` lists no GPU"
        print(f"real GPUs: {problem}; cure: run on a GPU host, as root", file=sys.stderr)
        return 1
    try:
        show_host()
        with running(gpus) as lab:
            return prove(lab, gpus)
    except (BuildError, HostError, RealError, SimulatorError) as error:
        print(error, file=sys.stderr)
        return 1


def show_host() -> None:
    """Print what this project's inspection of hosts reports about this machine."""
    done = subprocess.run(
        ["sh"], input=probe(), capture_output=True, text=True, timeout=60, check=True
    )
    facts = parse(done.stdout.splitlines())
    say(f"host: {facts.os} {facts.os_version}, kernel {facts.kernel}, driver {facts.driver}")
    for gpu in hardware.gpus(facts):
        say(f"host: {gpu}")
    for fault in hardware.warnings({NODE: facts}):
        say(f"host: {fault}")


@contextlib.contextmanager
def running(gpus: HostGpus) -> Iterator[Lab]:
    """Start a control plane and one node with this machine's GPUs; remove both at the end."""
    with locked(cache_dir() / "real" / "run.lock", LOCK_LIMIT):
        built_parts = build.build(*MODULES)
        work = cache_dir() / "real" / "nodes"
        work.mkdir(parents=True, exist_ok=True)
        archive = work / "image.tar"
        own_programs = {image.SAMPLE: sample(work), image.DRIVER_PROGRAM: gpus.nvidia_smi}
        image.write(archive, {**built_parts, **own_programs})
        lab = Lab(ControlPlane(NAME), {})
        declared = load(host_stack(lab.plane.context))
        (port,) = free_ports(1)
        node = Node(NODE, work / NODE, Path("/"), built_parts, gpus, port)
        try:
            simulator.down(NAME)
            cgroups.remove(NODE)
            simulator.start(NAME, hardware_of((), ()))
            lab.nodes[NODE] = node
            node.start(resolve(declared, NAME).hosts[0], lab.plane.access(), archive)
            lab.adopt(NODE)
            lab.wait_ready(NODE)
            yield lab
        finally:
            node.stop()
            simulator.down(NAME)
            archive.unlink(missing_ok=True)


def sample(folder: Path) -> Path:
    """Compile the CUDA program that runs a kernel; return the program's path.

    Raises:
        BuildError: No CUDA compiler was found, or it failed; the message has the last lines of its
            output.
    """
    compiler = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(compiler).exists():
        raise BuildError(
            f"real GPUs: found no CUDA compiler at {compiler}; wanted: nvcc; "
            "cure: install the package cuda-nvcc, or name its path in NVCC"
        )
    program = folder / image.SAMPLE
    source = Path(__file__).parent / "sample.cu"
    done = subprocess.run(
        [compiler, "-O2", "-cudart", "static", "-arch=native", "-o", str(program), str(source)],
        capture_output=True,
        text=True,
        timeout=COMPILE_LIMIT,
        check=False,
    )
    if done.returncode:
        raise BuildError(
            f"real GPUs: {compiler} ended with {done.returncode}; wanted: 0; cure: see its output\n"
            f"{(done.stdout + done.stderr)[-2000:]}"
        )
    return program


def host_stack(context: str) -> Json:
    """Return a configuration with this machine as a host whose container runtime is prepared."""
    return {
        "version": "v1",
        "kubernetes": {"context": context},
        "platform": "device-plugin",
        "pools": [{"name": "gpus", "nodes": [NODE], "gpusPerNode": 1}],
        "runtime": {"systemdCgroup": False},
        "hosts": [
            {
                "name": NODE,
                "address": "198.18.0.1",
                "hostKey": hosts.host_public_key(NODE),
                "role": "gpu-worker",
            }
        ],
    }


def gpu_stack(context: str, number: int) -> Json:
    """Return a configuration with which `up` counts and validates this machine's GPUs."""
    document = stack.declared(context)
    document["pools"] = [{"name": "gpus", "nodes": [NODE], "gpusPerNode": number}]
    document["validation"]["tests"] = TESTS
    return document


def prove(lab: Lab, gpus: HostGpus) -> int:
    """Run `up` twice, share the GPUs, validate and destroy; return 1 if a result is wrong."""
    number = len(gpus.uuids)
    problems = []
    lab.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": objects.GPU_NODES}})
    with stack.project(lab, Path(folder) if (folder := os.environ.get("GPU_CHARTS")) else None) as (
        project
    ):
        project.document.clear()
        project.document |= gpu_stack(lab.plane.context, number)
        for step in STEPS:
            step.change(project.document)
            project.write()
            output = project.command(step.command, *step.options)
            say(f"{step.name}:\n{output.strip()}")
            text = step.wanted.format(gpus=number)
            if text not in output:
                problems.append(f"{step.name}: wanted {text!r} in the output above")
            annotations = lab.node(NODE)["metadata"].get("annotations") or {}
            say(
                f"offered: {lab.offered(NODE)}; record: {annotations.get('gpu-cluster/validation')}"
            )
    for uuid in gpus.uuids:
        say(f"this machine's GPU: {uuid}")
    for problem in problems:
        say(f"WRONG: {problem}")
    say(f"real GPUs: {number} of {number} computed" if not problems else "real GPUs: see above")
    return bool(problems)


def _share_gpus(document: Json) -> None:
    sharing = {"timeSlicing": {"resources": [{"name": GPU, "replicas": 2}]}}
    document["devicePlugin"]["config"]["sharing"] = sharing


def _stop_sharing(document: Json) -> None:
    del document["devicePlugin"]["config"]["sharing"]


def _change_nothing(document: Json) -> None:
    del document


@dataclass(frozen=True)
class Step:
    """Step of the proof: one command on the stack.

    Attributes:
        name: What the step shows.
        command: Name of the command.
        wanted: Text that the output must contain; `{gpus}` is the number of GPUs.
        change: Changes the stack's configuration before the command.
        options: Options of the command, such as ``--nodes=gpu-1``.
    """

    name: str
    command: str
    wanted: str
    change: Callable[[Json], None] = _change_nothing
    options: tuple[str, ...] = ()


COMPUTED = "{gpus} of {gpus} GPUs computed"
STEPS = (
    Step("the stack comes up", "up", COMPUTED),
    Step("a second run changes nothing", "up", ", 0 resources changed"),
    Step("validated again", "validate", COMPUTED),
    Step(
        "each GPU is measured",
        "validate",
        "test copy: ran on 1 of 1 nodes",
        options=(f"--tests={','.join(TESTS)}",),
    ),
    Step("each GPU is shared by two", "up", COMPUTED, _share_gpus),
    Step("not shared", "up", COMPUTED, _stop_sharing),
    Step("the stack is destroyed", "destroy", ""),
)


def say(line: str) -> None:
    """Print a line and flush the output immediately."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
