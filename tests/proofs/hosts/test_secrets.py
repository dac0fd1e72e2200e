"""The SSH private key is in no argument, log, Pulumi state or file that other users can read.

Pulumi's own tracing (`-v=9`) is not tested: it prints secrets, as Pulumi documents.
"""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts.model import cluster_dir
from lab.benchmarks.host_stack import HostStack
from tests.proofs.hosts.declared import prepare, runtime
from tests.proofs.hosts.machine import Running, start

pytestmark = pytest.mark.full


class Watch:
    """Reads arguments and environments of all processes continuously while the context lasts.

    The processes of simulated hosts are included, because their PID namespaces are below this
    process's PID namespace.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.found: set[str] = set()
        self.commands: set[bytes] = set()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.005):
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        content = (process / name).read_bytes()
                    except OSError:
                        continue
                    if self._secret in content:
                        self.found.add(f"{name} of {content[:60]!r}")
                    if name == "cmdline":
                        self.commands.add(content[:60])


def carriers(folder: Path, secret: bytes) -> dict[Path, int]:
    """Return the files below a folder that contain the secret, with their permissions."""
    modes = {}
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and secret in path.read_bytes():
                modes[path] = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
    return modes


def test_the_key_is_nowhere_in_clear(cluster: str, namespaces: None, tmp_path: Path) -> None:
    (host,) = start(cluster, "gpu-1", mode="namespaces")
    path, _ = simulated.client_key(cluster)
    # Third line of the key file, which is a part of the private key's base64 text.
    secret = path.read_text().splitlines()[2].encode()
    assert len(secret) > 40
    stack = HostStack.make(tmp_path, "secrets", [host.declared], path)
    outputs = []
    with Watch(secret) as watch:
        for command in (
            ("up", "--yes", "--skip-preview", "--diff", "--debug"),
            ("preview", "--diff", "--json"),
            ("stack", "export"),
            ("destroy", "--yes", "--skip-preview", "--debug"),
        ):
            if command[0] == "destroy":
                outputs.append(stack.checkpoint())
            done = stack.run(*command)
            assert done.returncode == 0, done.stdout[-2000:]
            outputs.append(done.stdout)
    assert watch.found == set()
    assert any(b"sh\0-s\0--\0apply" in command for command in watch.commands)
    for text in outputs:
        assert secret.decode() not in text
    folders = [tmp_path, cluster_dir(cluster), toolchain.cache_dir() / "pulumi", host.root / "var"]
    folders += [host.root / "etc", host.root / "run", host.root / "tmp", host.root / "root"]
    modes = {file: mode for folder in folders for file, mode in carriers(folder, secret).items()}
    assert modes == {path: 0o600}


def test_what_is_kept_on_a_host_is_for_root_only(host: Running) -> None:
    for script in (prepare(), runtime()):
        assert host.apply(script).status == 0
    kept = host.root / "var/lib/gpu-cluster"
    for phase in kept.iterdir():
        assert stat.S_IMODE(phase.stat().st_mode) & 0o077 == 0, phase
