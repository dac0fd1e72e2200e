"""Test helpers that run commands on a simulated host over SSH and read its files directly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import asyncssh

from gpu_cluster.hosts import phases
from gpu_cluster.hosts.kubeadm import scripts as cluster_script
from gpu_cluster.hosts.script import Bundle, others
from gpu_cluster.hosts.step import Phase
from gpu_cluster.hosts.steps import every, of_phase
from gpu_cluster.ssh import upload
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts.model import cluster_dir, hosts_dir
from gpu_cluster_lab.simulator.ports import free_ports
from tests.guard import own_name

VOLATILE = ("dev", "proc", "run", "sys", "tmp")
VOLATILE += ("opt/containerd", "var/cache", "var/lib/containerd", "var/log")
"""Paths below the root that change on a running host without any script."""
STEPS = Path(upload.STEPS[1:])
"""Folder, relative to the host's root, with the uploaded shell files of the host steps."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """Address, SSH port and user of a simulated host, as a stack file declares them."""

    name: str
    port: int
    role: str = "gpu-worker"
    address: str = "127.0.0.1"
    user: str = "root"
    bastion: Declared | None = None
    login_seconds: int = 15

    @property
    def node(self) -> str:
        return self.name

    @property
    def host_key(self) -> str:
        return simulated.host_public_key(self.name)


@dataclasses.dataclass(frozen=True)
class Result:
    """Exit status and output of a command that has run on a host."""

    status: int
    output: str
    errors: str

    @property
    def changed(self) -> int:
        """Return the number of changes from a script's last output line, `changed=N`."""
        last = self.output.splitlines()[-1]
        assert last.startswith("changed="), self
        return int(last.removeprefix("changed="))


@dataclasses.dataclass(frozen=True)
class Running:
    """Running simulated host: commands run over SSH, files are read from its overlay."""

    cluster: str
    declared: Declared
    key: str = dataclasses.field(repr=False)
    limit: int = 60
    """Seconds that one command may run."""

    def run(self, command: str, stdin: str = "", host_key: str | None = None) -> Result:
        """Run a command on the host over SSH, as the declared user.

        If `stdin` is a script, the step files that it loads are first copied to the host.
        """
        self.copy_steps(stdin)
        return asyncio.run(self._run(command, stdin, host_key or self.declared.host_key))

    async def _run(self, command: str, stdin: str, host_key: str) -> Result:
        trusted = asyncssh.import_public_key(host_key)
        async with (
            asyncio.timeout(self.limit),
            asyncssh.connect(
                self.declared.address,
                self.declared.port,
                username=self.declared.user,
                client_keys=[asyncssh.import_private_key(self.key)],
                known_hosts=([trusted], [], []),
                config=None,
                agent_path=None,
            ) as connection,
        ):
            done = await connection.run(command, input=stdin, check=False)
        status = done.exit_status if done.exit_status is not None else -1
        return Result(status, str(done.stdout), str(done.stderr))

    @property
    def log_ins(self) -> int:
        """Return the number of logins in the SSH server's log.

        Only hosts in namespaces have such a log.
        """
        log = hosts_dir(self.cluster) / self.declared.name / "log"
        return log.read_text().count("Accepted publickey")

    def copy_steps(self, script: str) -> None:
        """Copy the step files that a script loads to the host, directly and not over SSH."""
        wanted = named(script)
        if not wanted:
            return
        parent = self.root / "var/lib"
        parent.mkdir(parents=True, exist_ok=True)
        times = parent.stat()
        for folder in (STEPS.parent, STEPS):
            (self.root / folder).mkdir(mode=0o700, exist_ok=True)
        for bundle in wanted:
            copy = self.root / STEPS / bundle.file
            if not copy.exists() or copy.read_text() != bundle.text:
                copy.write_text(bundle.text)
        os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))

    def apply(self, script: str, shell: str = "sh") -> Result:
        """Run a host script with the action `apply`, in the same way as a rollout does."""
        text = f"GC_ROLLOUT=1\n{script}"
        return self.run(f"timeout -k 10 {self.limit} {shell} -s -- apply", text)

    def undo(self, script: str, shell: str = "sh") -> Result:
        """Run a host script with the action `undo`, which removes its changes from the host."""
        return self.run(f"timeout -k 10 {self.limit} {shell} -s -- undo", script)

    @property
    def root(self) -> Path:
        """Return the host's root folder as a path on this machine."""
        folder = simulated.root_of(self.cluster, self.declared.name)
        assert folder is not None
        return folder

    def read(self, path: str) -> str:
        """Return the text of a file on the host, read directly and not over SSH."""
        return (self.root / path.lstrip("/")).read_text()

    def write(self, path: str, text: str) -> None:
        """Write a file on the host directly, not over SSH."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def exists(self, path: str) -> bool:
        """Check that a path exists on the host."""
        return (self.root / path.lstrip("/")).exists()

    def tree(self, times: bool = False) -> dict[str, str]:
        """Return each persistent path of the host with type, mode, owner, size, time and content.

        Folders have a time only with `times`, because creating and deleting a file changes it.
        Content is included for files in /etc and /var/lib/gpu-cluster; other files have size and
        time instead. /usr, the largest part of a root, is represented by the names in the overlay's
        upper folder. Uploaded step files are omitted, because no script writes them.
        """
        root = self.root
        upper = hosts_dir(self.cluster) / self.declared.name / "upper"
        files = {f"upper/{path.relative_to(upper)}": "" for path in (upper / "usr").rglob("*")}
        waiting = [root]
        while waiting:
            for path in waiting.pop().iterdir():
                relative = str(path.relative_to(root))
                if relative in (*VOLATILE, "usr", str(STEPS)):
                    continue
                if path == (root / STEPS.parent) and {*path.iterdir()} <= {root / STEPS}:
                    continue
                seen = path.lstat()
                words = [oct(seen.st_mode), f"{seen.st_uid}:{seen.st_gid}"]
                if stat.S_ISDIR(seen.st_mode):
                    waiting.append(path)
                    words += [str(seen.st_mtime_ns)] if times else []
                else:
                    words += [str(seen.st_size), str(seen.st_mtime_ns)]
                if stat.S_ISLNK(seen.st_mode):
                    words.append(str(path.readlink()))
                elif stat.S_ISREG(seen.st_mode) and relative.startswith(("etc/", "var/lib/gpu")):
                    words.append(hashlib.sha256(path.read_bytes()).hexdigest())
                files[relative] = " ".join(words)
        return files


def named(script: str) -> list[Bundle]:
    """Return the bundles of step files that a host script loads.

    This also works for a script that a test has cut off or edited.
    """
    lines = dict(re.findall(r"^(\S+)-([0-9a-f]{64})$", script, re.MULTILINE))
    steps = {name: step.files for name, step in of_phase(Phase.PREPARE).items()}
    engines = [(name, step.files) for step in every().values() for name in step.engines]
    known = [
        *(phases.PREPARE, phases.RUNTIME),
        *(*cluster_script.JOINING, cluster_script.ACCESS, cluster_script.CONTROL_PLANE),
        *(Bundle(name, files) for name, files in (*engines, *steps.items())),
        Bundle("toolkit", every()["toolkit"].files),
        others(tuple(steps.items()), frozenset(lines) & frozenset(steps)),
    ]
    return [bundle for bundle in known if lines.get(bundle.name) == bundle.digest]


def differences(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the paths that differ between two results of `Running.tree`, with both values."""
    return {
        path: (before.get(path, "absent"), after.get(path, "absent"))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


def free_port() -> int:
    """Return a TCP port on which no program currently listens."""
    return free_ports(1)[0]


@contextlib.contextmanager
def temporary_cluster() -> Iterator[str]:
    """Yield an unused name for a cluster of simulated hosts.

    Afterwards stop the hosts of that cluster and delete their files.
    """
    name = own_name("test")
    try:
        yield name
    finally:
        simulated.down(name)
        shutil.rmtree(cluster_dir(name), ignore_errors=True)


def start(
    cluster: str, *names: str, mode: str, user: str = "root", system: str = "debian"
) -> list[Running]:
    """Start simulated hosts and return them with the private key that logs in to them."""
    path, public = simulated.client_key(cluster)
    declared = [Declared(name, free_port(), user=user) for name in names]
    simulated.up(cluster, declared, public, simulated.HostSettings(mode=mode, system=system))
    return [Running(cluster, host, path.read_text()) for host in declared]
