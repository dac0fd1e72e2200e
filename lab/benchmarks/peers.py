"""Other projects' programs for rules, built from their Go modules at pinned versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster_lab.toolchain import golang
from lab.benchmarks.measure import BenchmarkError

BUILD_LIMIT = 3600
"""Time limit of one `go` command in seconds."""


@dataclass(frozen=True)
class Peer:
    """Go module of a program.

    Attributes:
        module: Path of the Go module.
        version: Version of the module.
        package: Go package of the program.
    """

    module: str
    version: str
    package: str


PEERS = {
    "gator": Peer("github.com/open-policy-agent/gatekeeper/v3", "v3.23.1", "./cmd/gator"),
    "kube-linter": Peer("golang.stackrox.io/kube-linter", "v0.8.3", "./cmd/kube-linter"),
    "kyverno": Peer("github.com/kyverno/kyverno", "v1.19.1", "./cmd/cli/kubectl-kyverno"),
}


def tool(name: str) -> Path:
    """Return a program from PATH or the cache; build it if it is in neither.

    Args:
        name: Key of `PEERS`.

    Raises:
        BenchmarkError: The program can't be built; the message has the reason.
        ToolchainError: There is no Go.
    """
    peer = PEERS[name]
    if program := shutil.which(name):
        return Path(program)
    built = cache_dir() / "peers" / f"{name}-{peer.version}" / name
    if built.is_file():
        return built
    go = str(golang.find_go(lambda line: print(line, file=sys.stderr)))
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        asked = _run_go([go, "mod", "download", "-json", f"{peer.module}@{peer.version}"], folder)
        source = Path(folder) / "source"
        shutil.copytree(json.loads(asked)["Dir"], source, copy_function=shutil.copyfile)
        for below in (source, *source.rglob("*/")):
            # Make the copied folders writable, because Go's module cache is read-only.
            below.chmod(0o755)
        built.parent.mkdir(parents=True, exist_ok=True)
        _run_go([go, "build", "-trimpath", "-o", str(built), peer.package], source)
    return built


def _run_go(command: list[str], folder: str | Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=golang.environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        reason = next((line for line in lines if '"Error"' in line), lines[-1] if lines else "")
        raise BenchmarkError(f"{' '.join(command[1:3])}: {reason.strip()}")
    return done.stdout
