"""Process of the real GPU Operator, in a chroot that resembles the operator's image.

The operator reads `/opt/gpu-operator` (manifests of its operands) and `/host-etc` in its image
(gpu-operator v24.3.0, controllers/state_manager.go, docker/Dockerfile).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gpu_cluster_lab.simulator.ports import free_ports
from gpu_cluster_lab.toolchain.cache import link
from lab.real.build import build, operator_files
from lab.real.node import RealError

NAMESPACE = "gpu-operator"
#: Operating system that the driver image is for. The operator reads it from the node it runs on.
OS_RELEASE = 'ID="ubuntu"\nVERSION_ID="22.04"\n'
LIMIT = 20.0


class Controller:
    """Running process of the real GPU Operator."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Store the operator's process and the path of its log."""
        self._process = process
        self._log = log

    def log(self, lines: int = 20) -> str:
        """Return the last lines of the GPU Operator's log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def check(self) -> None:
        """Check that the GPU Operator's process still runs.

        Raises:
            RealError: The operator has ended.
        """
        if self._process.poll() is not None:
            raise RealError(
                f"operator: ended with {self._process.returncode}; wanted: it runs; "
                f"cure: see its last lines\n{self.log()}"
            )


@contextlib.contextmanager
def running(kubeconfig: Path, folder: Path) -> Iterator[Controller]:
    """Start the operator against a control plane and yield it; stop it at the end."""
    root = folder / "root"
    _write_files(root, kubeconfig)
    health, metrics = free_ports(2)
    log = folder / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "chroot", str(root), "/gpu-operator"),
                f"--health-probe-bind-address=127.0.0.1:{health}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
            ],
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "KUBECONFIG": "/kubeconfig",
                "OPERATOR_NAMESPACE": NAMESPACE,
                "HOME": "/",
                "USER": "root",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield Controller(process, log)
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT)


def _write_files(root: Path, kubeconfig: Path) -> None:
    files = operator_files()
    place = root / "opt" / "gpu-operator"
    # The paths are those of the operator's image: docker/Dockerfile, "COPY assets" and "COPY
    # manifests".
    shutil.copytree(files / "assets", place)
    shutil.copytree(files / "manifests", place / "manifests")
    link(build("operator")["gpu-operator"], root / "gpu-operator")
    (root / "host-etc").mkdir()
    (root / "host-etc" / "os-release").write_text(OS_RELEASE)
    target = root / "kubeconfig"
    target.touch(mode=0o600)
    target.write_text(kubeconfig.read_text())
