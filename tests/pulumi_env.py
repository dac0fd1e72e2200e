"""Environment variables for tests that start the real Pulumi engine themselves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpu_cluster.commands.environment import unproxied
from gpu_cluster_lab import toolchain

ROOT = Path(__file__).parents[1]
TOOLS = (
    "pulumi",
    "pulumi-language-python",
    "pulumi-resource-kubernetes",
    "pulumi-resource-command",
)
FOREIGN = ("PULUMI_", "KUBECONFIG")


@pytest.fixture(scope="session")
def pulumi_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables for the real engine, with an empty state and Pulumi home."""
    folder = tmp_path_factory.mktemp("pulumi")
    for name in ("state", "tmp"):
        (folder / name).mkdir()
    tools = toolchain.ensure(*TOOLS)
    path = [str(Path(sys.executable).parent)]
    path += dict.fromkeys(str(tool.path.parent) for tool in tools.values())
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)},
        "PATH": os.pathsep.join([*path, os.environ["PATH"]]),
        "GPU_CLUSTER_HOME": str(ROOT),
        "GPU_CLUSTER_PYTHON": sys.executable,
        "PULUMI_BACKEND_URL": f"file://{folder}/state",
        "PULUMI_CONFIG_PASSPHRASE": "for tests only",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "TMPDIR": str(folder / "tmp"),
        **unproxied(os.environ),
    }
