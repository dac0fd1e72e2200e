"""The real operator as a process of its own, in a folder that it takes for the root of its image.

It reads the manifests of its operands at ``/opt/gpu-operator`` and its image's ``/host-etc``
(gpu-operator v24.3.0, controllers/state_manager.go, docker/Dockerfile).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.real.build import build, operator_files
from lab.real.node import RealError
from lab.simulator.ports import free_ports
from toolchain.cache import link

NAMESPACE = "gpu-operator"
#: Of the driver's image: the operator takes the operating system from its own node.
OS_RELEASE = 'ID="ubuntu"\nVERSION_ID="22.04"\n'
LIMIT = 20.0


class Controller:
    """The running operator."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def log(self, lines: int = 20) -> str:
        """What it said last."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def check(self) -> None:
        """Raise :class:`RealError` where it has ended."""
        if self._process.poll() is not None:
            raise RealError(
                f"operator: ended with {self._process.returncode}; wanted: it runs; "
                f"cure: see its last lines\n{self.log()}"
            )


@contextlib.contextmanager
def running(kubeconfig: Path, folder: Path) -> Iterator[Controller]:
    """Start the operator against a control plane; it ends with the block, or with this process."""
    root = folder / "root"
    _write(root, kubeconfig)
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


def _write(root: Path, kubeconfig: Path) -> None:
    files = operator_files()
    place = root / "opt" / "gpu-operator"
    # As its image has them: docker/Dockerfile, "COPY assets" and "COPY manifests".
    shutil.copytree(files / "assets", place)
    shutil.copytree(files / "manifests", place / "manifests")
    link(build("operator")["gpu-operator"], root / "gpu-operator")
    (root / "host-etc").mkdir()
    (root / "host-etc" / "os-release").write_text(OS_RELEASE)
    target = root / "kubeconfig"
    target.touch(mode=0o600)
    target.write_text(kubeconfig.read_text())
