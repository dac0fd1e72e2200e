"""Which stack a command is about, and whether its cluster is the embedded one."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import config
import simulator
import toolchain
from simulator import hosts as simulated_hosts

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """A stack by its file.

    Attributes:
        name: the stack's name.
        cluster: its configuration.
        embedded: whether it runs on the embedded cluster: its context is ``gpu-cluster-<name>``, or
            `EMBEDDED=1` asks for a stand-in of a real cluster, for a preview without access to it.
    """

    name: str
    cluster: config.Cluster
    embedded: bool

    @classmethod
    def current(cls) -> Stack:
        """The stack that `STACK` names, ``dev`` by default; ends the program on a bad file."""
        name = os.environ.get("STACK", "dev")
        try:
            cluster = config.load_stack_file(ROOT / f"Pulumi.{name}.yaml")
        except config.ConfigError as error:
            print(error, file=sys.stderr)
            sys.exit(1)
        embedded = cluster.kubernetes.context == f"gpu-cluster-{name}"
        return cls(name, cluster, embedded or os.environ.get("EMBEDDED") == "1")

    @property
    def folder(self) -> Path:
        """Where the embedded cluster keeps its files."""
        return toolchain.cache_dir() / "embedded" / self.name

    def embedded_variables(self) -> dict[str, str]:
        """Environment of a stack on the embedded cluster."""
        result = {
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(self.folder / "id_ed25519"),
        }
        if "GPU_CHARTS" not in os.environ:
            result["GPU_CHARTS"] = "simulator/charts"
        return result

    def start(self) -> None:
        """Starts what is missing of the embedded cluster and its hosts."""
        if not self.embedded:
            return
        _, public_key = simulated_hosts.client_key(self.name)
        simulated_hosts.up(self.name, self.cluster.hosts, public_key, progress=print)
        simulator.up(self.name, self.cluster)

    def stop(self) -> None:
        """Stops the embedded cluster and its hosts."""
        if not self.embedded:
            return
        simulator.down(self.name)
        simulated_hosts.down(self.name)
