"""Helpers of these tests: declared hosts, runs over SSH, a host's files past SSH."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import re
import stat
from pathlib import Path

import asyncssh

from components.hosts import phases
from components.hosts.kubeadm import scripts as cluster_script
from components.hosts.script import Bundle, others
from components.hosts.step import Phase
from components.hosts.steps import every, of_phase
from components.ssh import upload
from lab.simulator import hosts as simulated
from lab.simulator.hosts.model import hosts_dir
from lab.simulator.ports import free_ports

VOLATILE = ("dev", "proc", "run", "sys", "tmp")
VOLATILE += ("opt/containerd", "var/cache", "var/lib/containerd", "var/log")
"""Folders that change by themselves on a running host."""
STEPS = Path(upload.STEPS[1:])
"""Where the files of the steps are copied, below a root."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """A host as a stack file declares it."""

    name: str
    port: int
    role: str = "gpu-worker"
    address: str = "127.0.0.1"
    user: str = "root"
    bastion: Declared | None = None

    @property
    def node(self) -> str:
        return self.name

    @property
    def host_key(self) -> str:
        return simulated.host_public_key(self.name)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command on a host left."""

    status: int
    output: str
    errors: str

    @property
    def changed(self) -> int:
        """The number in the last line of a script's output."""
        last = self.output.splitlines()[-1]
        assert last.startswith("changed="), self
        return int(last.removeprefix("changed="))


@dataclasses.dataclass(frozen=True)
class Running:
    """A running simulated host: SSH for commands, the overlay for what came of them."""

    cluster: str
    declared: Declared
    key: str = dataclasses.field(repr=False)
    limit: int = 60
    """Seconds for one command."""

    def run(self, command: str, stdin: str = "", host_key: str | None = None) -> Result:
        """Run one command as the declared user.

        What a declaration names lies where the product would have copied it.
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
        """How often somebody logged in, by the word of the sshd of a host in namespaces."""
        log = hosts_dir(self.cluster) / self.declared.name / "log"
        return log.read_text().count("Accepted publickey")

    def copy_steps(self, script: str) -> None:
        """The files that a script names, where the product would have copied them, past SSH."""
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
        """Run a script as the product does, in a rollout."""
        text = f"GC_ROLLOUT=1\n{script}"
        return self.run(f"timeout -k 10 {self.limit} {shell} -s -- apply", text)

    def undo(self, script: str, shell: str = "sh") -> Result:
        """Take a script's changes back as the product does."""
        return self.run(f"timeout -k 10 {self.limit} {shell} -s -- undo", script)

    @property
    def root(self) -> Path:
        """The host's file system, past SSH."""
        folder = simulated.root_of(self.cluster, self.declared.name)
        assert folder is not None
        return folder

    def read(self, path: str) -> str:
        """A file of the host, past SSH."""
        return (self.root / path.lstrip("/")).read_text()

    def write(self, path: str, text: str) -> None:
        """Put a file on the host, past SSH."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def exists(self, path: str) -> bool:
        """Whether the host has that path."""
        return (self.root / path.lstrip("/")).exists()

    def tree(self, times: bool = False) -> dict[str, str]:
        """Every lasting path of the host with type, mode, owner, size, time and content.

        Folders' own times only with ``times``: making and removing a file changes them. Content of
        what lies outside /etc and /var/lib/gpu-cluster is represented by size and time; /usr, by
        far the most of a root, by the names that the overlay holds of it. Without the files of the
        steps, which are copied there, not written by a script.
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
    """What a declaration loads, also one that was cut off or changed."""
    lines = dict(re.findall(r"^(\S+)-([0-9a-f]{64})$", script, re.MULTILINE))
    steps = {name: step.files for name, step in of_phase(Phase.PREPARE).items()}
    engines = [(name, step.files) for step in every().values() for name in step.engines]
    known = [
        *(phases.PREPARE, phases.RUNTIME),
        *(*cluster_script.JOINING, cluster_script.ACCESS),
        *(Bundle(name, files) for name, files in (*engines, *steps.items())),
        Bundle("toolkit", every()["toolkit"].files),
        others(tuple(steps.items()), frozenset(lines) & frozenset(steps)),
    ]
    return [bundle for bundle in known if lines.get(bundle.name) == bundle.digest]


def differences(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Paths that are not the same in two trees."""
    return {
        path: (before.get(path, "absent"), after.get(path, "absent"))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


def free_port() -> int:
    """A port that nothing listens on now."""
    return free_ports(1)[0]
