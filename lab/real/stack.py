"""Our own program on the real nodes: as a person brings up a stack on a cluster of theirs.

The cluster's real and simulated nodes are two pools of one stack, so that the program does the same
for both. The chart is NVIDIA's own, from the module of the plugin that is built here.
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

from commands.environment import local_backend
from commands.files import copy_project
from lab.real import build, parts
from lab.real.lab import GPUS, REAL, SIMULATED, Lab
from lab.real.node import RealError

#: Not the embedded cluster's: to the program this is a cluster like any other.
STACK = "real"
NAMESPACE = "nvidia-device-plugin"
LIMIT = 420
#: What of the caller's own stacks must not reach this one.
_OWN = ("PULUMI_", "KUBECONFIG", "GPU_CHARTS", "GPU_CLUSTER_SSH", "GPU_CLUSTER_INSPECTION", "STACK")

Json = dict[str, Any]


def declared(context: str) -> Json:
    """The stack: each kind of node is a pool."""
    return {
        "version": "v1",
        "kubernetes": {"context": context},
        "platform": "device-plugin",
        # Nodes hold images of ours under the names of the makers' ones.
        "registry": {"digests": False},
        "pools": [
            {"name": "real", "nodes": list(REAL), "gpusPerNode": GPUS},
            {"name": "sim", "nodes": list(SIMULATED), "gpusPerNode": GPUS},
        ],
        "devicePlugin": {
            "version": parts.PLUGIN,
            "namespace": NAMESPACE,
            # As our own preparation of the nodes wants it; it is no part of this stack.
            "config": {"flags": {"plugin": {"deviceListStrategy": "volume-mounts"}}},
        },
        "validation": {"timeoutSeconds": 180},
    }


@dataclass
class Stack:
    """A copy of the project with its state.

    ``folder``: of the program; ``document``: what its stack file declares.
    """

    folder: Path
    environment: dict[str, str]
    document: Json

    def write(self) -> None:
        """Write the stack file; the engine's own lines stay."""
        path = self.folder / f"Pulumi.{STACK}.yaml"
        content = yaml.safe_load(path.read_text()) if path.exists() else {}
        content["config"] = {"gpu-cluster:cluster": self.document}
        path.write_text(yaml.safe_dump(content))

    def command(self, name: str) -> str:
        """What `make NAME` runs; its output.

        Raises:
            RealError: with the output's end, where it fails.
        """
        done = subprocess.run(
            ["venv/bin/python", "-m", f"commands.{name}"],
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
                f"make {name} on the real nodes: found exit code {done.returncode}; "
                f"wanted: 0; cure: see its output\n{done.stdout[-3000:]}"
            )
        return done.stdout


@contextlib.contextmanager
def project(lab: Lab) -> Iterator[Stack]:
    """A stack with a state of its own; what it installed is destroyed by who installed it."""
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
                "GPU_CHARTS": str(build.charts()),
                "PULUMI_BACKEND_URL": local_backend(state),
                "PULUMI_CONFIG_PASSPHRASE": "of a stack that goes with the run",
            },
            declared(lab.plane.context),
        )
        yield stack
