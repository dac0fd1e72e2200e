"""Pulumi program of this project, run on the test cluster as a user would run it.

Real and simulated nodes are two pools of one stack, so that the program treats both in the same
way. The Helm chart is NVIDIA's own, from the Go module of the device plugin.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.files import copy_project
from lab.real import build, parts
from lab.real.lab import GPUS, REAL, SIMULATED, Lab
from lab.real.node import RealError

#: Name of the stack. It differs from the embedded cluster's name, so that the program treats the
#: cluster like any other.
STACK = "real"
NAMESPACE = "nvidia-device-plugin"
#: Timeout in seconds for one command, also on a busy machine.
LIMIT = 900
#: Prefixes of environment variables that belong to the caller's own stacks. They are removed, so
#: that they don't affect this stack.
_OWN = ("PULUMI_", "KUBECONFIG", "GPU_CHARTS", "GPU_CLUSTER_SSH", "GPU_CLUSTER_INSPECTION", "STACK")

Json = dict[str, Any]


def declared(context: str) -> Json:
    """Return a stack configuration with two pools: the real nodes and the simulated nodes."""
    return {
        "version": "v1",
        "kubernetes": {"context": context},
        "platform": "device-plugin",
        # Image digests are not checked: the nodes have the tests' image under the names of official
        # images.
        "registry": {"digests": False},
        "pools": [
            {"name": "real", "nodes": list(REAL), "gpusPerNode": GPUS},
            {"name": "sim", "nodes": list(SIMULATED), "gpusPerNode": GPUS},
        ],
        "devicePlugin": {
            "version": parts.PLUGIN,
            "namespace": NAMESPACE,
            # This stack must declare volume mounts, because the nodes were prepared for them. The
            # preparation itself isn't part of this stack.
            "config": {"flags": {"plugin": {"deviceListStrategy": "volume-mounts"}}},
        },
        "validation": {"timeoutSeconds": 180},
    }


@dataclass
class Stack:
    """Temporary copy of this project with its own stack and state.

    Attributes:
        folder: Folder of the program.
        environment: Environment variables with which commands run.
        document: Configuration that `write` writes to the stack file.
    """

    folder: Path
    environment: dict[str, str]
    document: Json

    def write(self) -> None:
        """Write the configuration to the stack file; keep the keys that Pulumi wrote there."""
        path = self.folder / f"Pulumi.{STACK}.yaml"
        content = yaml.safe_load(path.read_text()) if path.exists() else {}
        content["config"] = {"gpu-cluster:cluster": self.document}
        path.write_text(yaml.safe_dump(content))

    def command(self, name: str, *options: str) -> str:
        """Run a verb of `gpu-cluster`; return its output.

        Args:
            name: The verb.
            options: Its options, such as ``--nodes=gpu-1``.

        Raises:
            RealError: The command failed; the message has the end of its output.
        """
        done = subprocess.run(
            ["venv/bin/python", "-m", "gpu_cluster.commands", name, *options],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise RealError(
                f"gpu-cluster {name} on the real nodes: found exit code {done.returncode}; "
                f"wanted: 0; cure: see its output\n{done.stdout[-3000:]}"
            )
        return done.stdout


@contextlib.contextmanager
def project(lab: Lab, charts: Path | None = None) -> Iterator[Stack]:
    """Yield a new stack with its own state.

    The caller must run `destroy` before the end, to remove what the stack has installed.

    Args:
        lab: The running test cluster.
        charts: Folder of NVIDIA's charts; by default the folder in the device plugin's Go module.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OWN)}
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-real-") as temporary:
        folder, state = Path(temporary, "project"), Path(temporary, "state")
        copy_project(folder)
        state.mkdir()
        stack = Stack(
            folder,
            {
                **kept,
                "STACK": STACK,
                "KUBECONFIG": str(lab.plane.kubeconfig),
                "GPU_CHARTS": str(charts or build.charts()),
                "PULUMI_BACKEND_URL": local_backend(state),
                "PULUMI_CONFIG_PASSPHRASE": "of a stack that goes with the run",
            },
            declared(lab.plane.context),
        )
        yield stack
