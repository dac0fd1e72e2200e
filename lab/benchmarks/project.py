"""Temporary copy of this project with its own stack, embedded cluster and Pulumi state."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.commands.embedded_cluster import erase
from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.files import copy_project
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.ports import free_ports
from lab.benchmarks.measure import Sample, timed

ROOT = Path(__file__).parents[2]
HOSTS = 2
"""Number of SSH hosts of every stack; the other nodes are simulated without an SSH host."""

OWN = ("PULUMI_", "KUBECONFIG", "GPU_CHARTS", "GPU_CLUSTER_SSH")
"""Prefixes of the caller's environment variables that are removed for the benchmark's stacks."""


@dataclass
class Project:
    """Temporary copy of this project with a running embedded cluster.

    Attributes:
        folder: Folder of the program.
        state: Folder of the Pulumi state.
        environment: Environment variables that `gpu-cluster env` exports, for running `pulumi`
            directly.
    """

    folder: Path
    state: Path
    stack: str
    environment: dict[str, str]

    def pulumi(self, *arguments: str) -> tuple[Sample, str]:
        """Run `pulumi` directly, as a user does on the command line; return times and output."""
        return pulumi(self.folder, self.stack, self.environment, *arguments)

    def command(self, name: str) -> tuple[Sample, str]:
        """Run the command behind `make NAME`; return times and output."""
        return timed(
            ["venv/bin/python", "-m", "gpu_cluster.commands", name], self.folder, self.environment
        )

    @property
    def checkpoint(self) -> Path:
        """Return the path of the stack's state file."""
        (path,) = (self.state / ".pulumi" / "stacks").rglob(f"{self.stack}.json")
        return path


def pulumi(
    folder: Path, stack: str, environment: Mapping[str, str], *arguments: str
) -> tuple[Sample, str]:
    """Run `pulumi` on a stack of the program in `folder`; return times and output."""
    command = ["pulumi", *arguments, "--stack", stack, "--non-interactive", "--color", "never"]
    return timed(command, folder, environment)


def configuration(stack: str, nodes: int, ports: tuple[int, ...]) -> dict[str, Any]:
    """Return a stack's configuration: one pool with 8 GPUs per node, defaults for all else.

    The first nodes have an SSH host for each port in `ports`; the other nodes have none.
    """
    return {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{stack}"},
        "platform": "device-plugin",
        "pools": [{"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}],
        "hosts": [
            {
                "name": f"gpu-{number}",
                "address": "127.0.0.1",
                "port": port,
                "hostKey": simulated_hosts.host_public_key(f"gpu-{number}"),
            }
            for number, port in enumerate(ports, start=1)
        ],
    }


@contextmanager
def running(nodes: int) -> Iterator[Project]:
    """Yield a project copy whose embedded cluster has `nodes` GPU nodes; remove it afterwards."""
    stack = f"bench-{nodes}-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-bench-") as temporary:
        folder, state = Path(temporary, "project"), Path(temporary, "state")
        copy_project(folder)
        state.mkdir()
        document = configuration(stack, nodes, tuple(free_ports(HOSTS)))
        (folder / f"Pulumi.{stack}.yaml").write_text(
            yaml.safe_dump({"config": {"gpu-cluster:cluster": document}})
        )
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(OWN)},
            "STACK": stack,
            "PULUMI_BACKEND_URL": local_backend(state),
        }
        try:
            timed(["venv/bin/python", "-m", "gpu_cluster.commands", "start"], folder, environment)
            exports = 'eval "$(venv/bin/python -m gpu_cluster.commands env)" && env -0'
            _, text = timed(["sh", "-c", exports], folder, environment)
            environment = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
            pulumi(folder, stack, environment, "stack", "init")
            yield Project(folder, state, stack, environment)
        finally:
            erase(stack)
