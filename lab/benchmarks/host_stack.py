"""Pulumi stack with SSH hosts but without a cluster, with its own project folder and state."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpu_cluster.commands.engine_home import engine_home
from gpu_cluster.commands.environment import at_once, local_backend
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts import model as simulated
from lab.benchmarks.measure import Sample, timed

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "hosts_stack" / "__main__.py"
IDLE = Path(__file__).parent / "idle_stack" / "__main__.py"
EMPTY = Path(__file__).parent / "empty_stack" / "__main__.py"
"""Programs: the measured program, one with empty commands, and one with almost empty scripts."""
TOOLS = ("pulumi", "pulumi-language-python", "pulumi-resource-command")
OWN = ("PULUMI_", "KUBECONFIG", "GPU_CHARTS", "GPU_CLUSTER_SSH", "GPU_CLUSTER_INSPECTION")
"""Prefixes of the caller's environment variables that are removed for these stacks."""


class StackHost(simulated.SimulatedHost, Protocol):
    """Simulated host with the fields that a stack file needs."""

    @property
    def host_key(self) -> str:
        """Return the host's public SSH key."""
        ...


@dataclass
class HostStack:
    """Pulumi stack that only prepares SSH hosts.

    Attributes:
        folder: Folder of the program.
        key: Path of the SSH private key.
        environment: Environment variables of pulumi.
    """

    folder: Path
    name: str
    key: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls, folder: Path, name: str, hosts: Sequence[StackHost], key: Path, main: Path = PROGRAM
    ) -> HostStack:
        """Create a stack with `hosts`.

        The GPU hosts are the nodes of one pool with 8 GPUs per node.
        """
        program = folder / "program"
        program.mkdir(parents=True)
        (folder / "state").mkdir()
        (folder / "passphrase").write_text("passphrase of a stack that is thrown away\n")
        (program / "Pulumi.yaml").write_text(
            yaml.safe_dump(
                {
                    "name": "gpu-cluster",
                    "runtime": {
                        "name": "python",
                        "options": {"toolchain": "pip", "virtualenv": "venv"},
                    },
                }
            )
        )
        (program / "__main__.py").symlink_to(main)
        for shared in ("venv", "components", "policies"):
            (program / shared).symlink_to(ROOT / shared)
        tools = toolchain.ensure(*TOOLS).values()
        folders = [str(Path(sys.prefix) / "bin"), *(str(tool.path.parent) for tool in tools)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
        stack = cls(program, name, key)
        stack.environment = {
            **kept,
            "PATH": os.pathsep.join([*dict.fromkeys(folders), kept.get("PATH", "")]),
            "GPU_CLUSTER_HOME": str(ROOT),
            "GPU_CLUSTER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "PULUMI_HOME": str(engine_home(toolchain.cache_dir())),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_BACKEND_URL": local_backend(folder / "state"),
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder / "passphrase"),
            "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
            "GPU_CLUSTER_INSPECTION": "hosts",
            "PULUMI_PARALLEL": str(at_once(len(hosts))),
        }
        stack.write(declared(hosts))
        stack.run("stack", "init")
        return stack

    @property
    def file(self) -> Path:
        """Return the path of the stack file."""
        return self.folder / f"Pulumi.{self.name}.yaml"

    def read(self) -> dict[str, Any]:
        """Return the project's configuration from the stack file."""
        stack: dict[str, Any] = yaml.safe_load(self.file.read_text())["config"]
        return dict(stack["gpu-cluster:cluster"])

    def write(self, document: dict[str, Any]) -> None:
        """Replace the configuration in the stack file; keys that Pulumi wrote there are kept."""
        content = yaml.safe_load(self.file.read_text()) if self.file.exists() else {}
        content["config"] = {"gpu-cluster:cluster": document}
        self.file.write_text(yaml.safe_dump(content))

    def run(self, *arguments: str, limit: float = 300) -> subprocess.CompletedProcess[str]:
        """Run pulumi on this stack.

        Raises:
            subprocess.TimeoutExpired: pulumi did not end within `limit` seconds.
        """
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of pulumi for this stack."""
        return ["pulumi", *arguments, "--stack", self.name, "--non-interactive", "--color", "never"]

    def timed(self, *arguments: str) -> Sample:
        """Run a pulumi command that must succeed, and return its wall and processor time.

        Raises:
            BenchmarkError: The command failed.
        """
        return timed(self.command(*arguments), self.folder, self.environment)[0]

    def checkpoint(self) -> str:
        """Return the content of the stack's state file."""
        states = (self.folder.with_name("state") / ".pulumi" / "stacks").rglob(f"{self.name}.json")
        return next(states).read_text()


def declared(hosts: Sequence[StackHost]) -> dict[str, Any]:
    """Return a stack's configuration with `hosts` and one pool, and without a cluster."""
    return {
        "version": "v1",
        "kubernetes": {"context": "none"},
        "platform": "device-plugin",
        "pools": [
            {
                "name": "a100",
                "nodes": [host.name for host in hosts if str(host.role) == "gpu-worker"],
                "gpusPerNode": 8,
            }
        ],
        "hosts": [
            {
                "name": host.name,
                "role": str(host.role),
                "address": host.address,
                "port": host.port,
                "user": host.user,
                "hostKey": host.host_key,
            }
            for host in hosts
        ],
    }
