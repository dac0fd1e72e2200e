"""Which stack a command is about, and whether its cluster is the embedded one."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

import toolchain
from commands import charts
from commands.lock import one_run
from components.loading.stack_file import load_stack_file
from components.settings.cluster import Cluster
from lab import simulator
from lab.simulator import hosts as simulated_hosts
from lab.simulator.hardware import (
    Hardware,
    absent,
    hardware_of,
    load_hardware,
    ranges,
    write_hardware,
)
from policies.faults import ConfigError

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """A stack by its name, which names its file."""

    name: str

    @classmethod
    def current(cls) -> Stack:
        """Return the stack that ``STACK`` names, ``dev`` by default; end on a bad file."""
        stack = cls(os.environ.get("STACK", "dev"))
        try:
            _ = stack.cluster
        except ConfigError as error:
            print(error, file=sys.stderr)
            sys.exit(1)
        return stack

    @cached_property
    def cluster(self) -> Cluster:
        """What the stack's file declares.

        Raises:
            ConfigError: all problems of the file.
        """
        return load_stack_file(self.file)

    @property
    def _own(self) -> bool:
        """Whether its context is that of an embedded cluster: ``gpu-cluster-<name>``."""
        return self.cluster.kubernetes.context == f"gpu-cluster-{self.name}"

    @property
    def is_fake(self) -> bool:
        """Whether an embedded cluster replaces the stack's real one (``EMBEDDED=1``).

        A preview then needs no access to it. Its hosts aren't simulated: a preview reaches none.
        """
        return not self._own and os.environ.get("EMBEDDED") == "1"

    @property
    def embedded(self) -> bool:
        """Whether it runs on the embedded cluster."""
        return self._own or self.is_fake

    @property
    def file(self) -> Path:
        """The stack file."""
        return ROOT / f"Pulumi.{self.name}.yaml"

    @property
    def folder(self) -> Path:
        """Where the embedded cluster keeps its files."""
        return toolchain.cache_dir() / "embedded" / self.name

    @property
    def scratch(self) -> Path:
        """Where its runs put temporary files."""
        return toolchain.cache_dir() / "tmp" / self.name

    @property
    def kubeconfig(self) -> Path:
        """The embedded cluster's kubeconfig; a substitute's context bears the real one's name."""
        return self.folder / ("fake.kubeconfig" if self.is_fake else "kubeconfig")

    def embedded_variables(self) -> dict[str, str]:
        """Environment of a stack on the embedded cluster."""
        key, _ = simulated_hosts.client_key(self.name)
        result = {
            "KUBECONFIG": str(self.kubeconfig),
            "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
        }
        if self.is_fake:
            result["GPU_CLUSTER_INSPECTION"] = "cluster"  # its hosts are not simulated
        result["GPU_CHARTS"] = charts.directory()
        return result

    @property
    def hardware_file(self) -> Path:
        """The file of the embedded cluster's simulated hardware."""
        return ROOT / "lab" / "hardware" / f"{self.name}.yaml"

    def hardware(self) -> Hardware:
        """Return the simulated hardware: what its file says.

        Where there is no file, it is what the stack declares: written down for an embedded stack,
        and for the substitute of a real cluster, whose machines nobody simulates, at each start.

        Raises:
            ConfigError: all problems of the file.
            OSError: the file can't be written.
        """
        if self.hardware_file.exists():
            return load_hardware(self.hardware_file)
        if self.is_fake:
            return self._declared_hardware(with_hosts=False)
        write_hardware(self.hardware_file, self.name, self._declared_hardware())
        print(
            f"{self.hardware_file.relative_to(ROOT)}: written, with the nodes and hosts that "
            f"{self.file.name} declares; edit it to add or remove simulated machines"
        )
        return load_hardware(self.hardware_file)

    def _declared_hardware(self, *, with_hosts: bool = True) -> Hardware:
        """Return the hardware that the stack declares."""
        declared = self.cluster
        hosts = declared.hosts
        return hardware_of(declared.pools, hosts, declared.driver, with_hosts=with_hosts)

    def note_absent_machines(self) -> None:
        """Say which declared machines the hardware file lacks: the run then finds them missing."""
        if not self.embedded or not self.hardware_file.exists():
            return
        try:
            there, declared = load_hardware(self.hardware_file), self.cluster
            lacking = list(ranges(absent(there, declared.pools, declared.hosts)))
        except ConfigError:
            return  # `make start` reports it
        if lacking:
            print(
                f"{self.hardware_file.relative_to(ROOT)} has no {', '.join(lacking)}, declared by "
                f"{self.file.name}. If they should exist, add them there and run `make start`."
            )

    def start(self) -> None:
        """Starts what is missing of the embedded cluster and its hosts."""
        if not self.embedded:
            return
        try:
            hardware = self.hardware()
            if not self.is_fake:
                _, public_key = simulated_hosts.client_key(self.name)
                shown = hardware.host_settings()
                machines = hardware.machines()
                simulated_hosts.up(self.name, machines, public_key, shown, progress=print)
            started = simulator.start(self.name, hardware)
        except (
            ConfigError,
            OSError,
            simulated_hosts.HostError,
            simulator.SimulatorError,
        ) as error:
            print(error, file=sys.stderr)
            sys.exit(1)
        if self.is_fake:
            text = started.kubeconfig.read_text()
            content = yaml.safe_load(text)
            content["contexts"][0]["name"] = self.cluster.kubernetes.context
            content["current-context"] = self.cluster.kubernetes.context
            self.kubeconfig.touch(mode=0o600)
            self.kubeconfig.write_text(yaml.safe_dump(content))

    def require_running(self) -> None:
        """Ends the program where the embedded cluster does not run; starts and makes nothing."""
        if not self.embedded:
            return
        status = simulator.status(self.name)
        if status.ready and self.kubeconfig.exists():
            return
        first = "EMBEDDED=1 " if self.is_fake else ""
        missing = f" ({', '.join(status.missing)} not running)" if status.running else ""
        print(
            f"The embedded cluster of stack {self.name} does not run{missing}, and a preview "
            f"starts nothing. Run `{first}make start STACK={self.name}` first.",
            file=sys.stderr,
        )
        sys.exit(1)

    @property
    def _identity(self) -> str:
        """What tells one embedded cluster from another of the same name: its authority's key."""
        authority = simulator.authority(self.name)
        return hashlib.sha256(authority.read_bytes()).hexdigest() if authority.exists() else ""

    @property
    def _remembered(self) -> Path:
        return self.folder.with_name(f"{self.name}.cluster")

    def replaced(self) -> bool:
        """Whether the embedded cluster is not the one that the last finished run worked on.

        Its folder was removed, or it could not be started again and was made anew: the state then
        tells of objects that are gone.
        """
        path = self._remembered
        return self.embedded and path.exists() and path.read_text() != self._identity

    def remember(self) -> None:
        """Notes which embedded cluster the state is of; after a finished run."""
        if self.embedded:
            self._remembered.write_text(self._identity)

    def stop(self) -> None:
        """Stops the embedded cluster and its hosts."""
        if not self.embedded:
            return
        self._remembered.unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        simulator.down(self.name)
        simulated_hosts.down(self.name)

    @contextmanager
    def held(self, command: str) -> Iterator[None]:
        """Keep other commands from an embedded stack while one starts, changes or removes it.

        Args:
            command: as the user types it.
        """
        if not self.embedded:
            yield
            return
        with one_run(self.folder.with_name(f".{self.name}.run"), command):
            yield

    @contextmanager
    def unsalted(self) -> Iterator[None]:
        """Keeps the engine's ``encryptionsalt`` out of a committed stack file.

        The engine writes the salt of a stack's passphrase into the stack file. An embedded stack's
        passphrase is of this machine, so its salt is kept in the cache and lent to the file while a
        command runs. Other stacks share their passphrase, and their salt belongs in the file; so it
        does where the file holds secrets, which nobody could decrypt without it.
        """
        original = self.file.read_bytes()
        if not self.embedded or b"secure:" in original:
            yield
            return
        salt = self.folder.with_name(f"{self.name}.salt")
        if b"\nencryptionsalt:" not in original and salt.exists():
            self.file.write_bytes(original + salt.read_bytes())
        try:
            yield
        finally:
            lines = self.file.read_bytes().splitlines(keepends=True)
            salts = [line for line in lines if line.startswith(b"encryptionsalt:")]
            if salts:
                salt.parent.mkdir(parents=True, exist_ok=True)
                salt.write_bytes(salts[0])
            rest = b"".join(line for line in lines if not line.startswith(b"encryptionsalt:"))
            # The engine writes the file anew, without its blank lines.
            same = yaml.safe_load(rest) == yaml.safe_load(original)
            self.file.write_bytes(original if same else rest)


def erase(name: str) -> None:
    """Stops an embedded cluster and removes all that is kept of it: of a stack to throw away."""
    simulator.down(name)
    simulated_hosts.down(name)
    cache = toolchain.cache_dir()
    shutil.rmtree(cache / "embedded" / name, ignore_errors=True)
    shutil.rmtree(cache / "tmp" / name, ignore_errors=True)
    for left in (f"{name}.salt", f"{name}.cluster", f".{name}.lock", f".{name}.run"):
        (cache / "embedded" / left).unlink(missing_ok=True)
