"""The Pulumi stack that a command works on, and the embedded cluster it may run on."""

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
from components.settings.nodes.node_range import ranges
from lab import simulator
from lab.simulator import hosts as simulated_hosts
from lab.simulator.hardware import (
    Hardware,
    absent,
    hardware_of,
    load_hardware,
    write_hardware,
)
from policies.faults import ConfigError

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """A Pulumi stack, identified by its name; its file is `Pulumi.<name>.yaml`."""

    name: str

    @classmethod
    def current(cls) -> Stack:
        """Return the stack that ``STACK`` names (``dev`` by default); exit with 1 on a bad file."""
        stack = cls(os.environ.get("STACK", "dev"))
        try:
            _ = stack.cluster
        except ConfigError as error:
            print(error, file=sys.stderr)
            sys.exit(1)
        return stack

    @cached_property
    def cluster(self) -> Cluster:
        """Return the settings that the stack file declares.

        Raises:
            ConfigError: All faults of the file.
        """
        return load_stack_file(self.file)

    @property
    def _own(self) -> bool:
        """Return whether the stack's context is of an embedded cluster: ``gpu-cluster-<name>``."""
        return self.cluster.kubernetes.context == f"gpu-cluster-{self.name}"

    @property
    def is_fake(self) -> bool:
        """Return whether an embedded cluster replaces the stack's real cluster (``EMBEDDED=1``).

        A preview then needs no access to the real cluster. The stack's hosts are not simulated,
        because such a preview connects to no host.
        """
        return not self._own and os.environ.get("EMBEDDED") == "1"

    @property
    def embedded(self) -> bool:
        """Return whether the stack runs on an embedded cluster, its own or a replacement."""
        return self._own or self.is_fake

    @property
    def file(self) -> Path:
        """Return the path of the stack file."""
        return ROOT / f"Pulumi.{self.name}.yaml"

    @property
    def folder(self) -> Path:
        """Return the folder with the embedded cluster's files."""
        return toolchain.cache_dir() / "embedded" / self.name

    @property
    def scratch(self) -> Path:
        """Return the folder for temporary files of the stack's runs."""
        return toolchain.cache_dir() / "tmp" / self.name

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the embedded cluster's kubeconfig.

        If the embedded cluster replaces a real one, the context in that file has the real cluster's
        name.
        """
        return self.folder / ("fake.kubeconfig" if self.is_fake else "kubeconfig")

    def embedded_variables(self) -> dict[str, str]:
        """Return the environment variables for a stack on an embedded cluster."""
        key, _ = simulated_hosts.client_key(self.name)
        result = {
            "KUBECONFIG": str(self.kubeconfig),
            "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
        }
        if self.is_fake:
            # The hosts of a stack whose real cluster is replaced are not simulated.
            result["GPU_CLUSTER_INSPECTION"] = "cluster"
        result["GPU_CHARTS"] = charts.directory()
        return result

    @property
    def hardware_file(self) -> Path:
        """Return the path of the file that describes the embedded cluster's simulated hardware."""
        return ROOT / "lab" / "hardware" / f"{self.name}.yaml"

    def hardware(self) -> Hardware:
        """Return the simulated hardware that the hardware file describes.

        If there is no hardware file, the hardware is derived from the stack file. For a stack on
        its own embedded cluster it is written to the hardware file. For a replacement of a real
        cluster it is derived again at each start and has no hosts.

        Raises:
            ConfigError: All faults of the file.
            OSError: The file can't be written.
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
        """Return simulated hardware that matches the stack's pools, hosts and driver."""
        declared = self.cluster
        hosts = declared.hosts
        return hardware_of(declared.pools, hosts, declared.driver, with_hosts=with_hosts)

    def note_absent_machines(self) -> None:
        """Print which declared machines are missing from the simulated hardware file."""
        if not self.embedded or not self.hardware_file.exists():
            return
        try:
            there, declared = load_hardware(self.hardware_file), self.cluster
            lacking = list(ranges(absent(there, declared.pools, declared.hosts)))
        except ConfigError:
            return  # `make start` reports the faults of the file.
        if lacking:
            print(
                f"{self.hardware_file.relative_to(ROOT)} has no {', '.join(lacking)}, declared by "
                f"{self.file.name}. If they should exist, add them there and run `make start`."
            )

    def start(self) -> None:
        """Start the parts of the embedded cluster and its simulated hosts that don't run.

        Exit with 1 if a part can't be started.
        """
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
        """Exit with 1 if the embedded cluster does not run; start and create nothing."""
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
        """Return an identifier of the embedded cluster: the SHA-256 sum of its authority's key.

        The authority signs the certificates of the cluster.

        Two embedded clusters with the same name have different identifiers.
        """
        authority = simulator.authority(self.name)
        return hashlib.sha256(authority.read_bytes()).hexdigest() if authority.exists() else ""

    @property
    def _remembered(self) -> Path:
        return self.folder.with_name(f"{self.name}.cluster")

    def replaced(self) -> bool:
        """Return whether the embedded cluster was recreated since the last finished run.

        This happens if its folder was removed, or if it could not be started again. The state then
        contains objects that no longer exist.
        """
        path = self._remembered
        return self.embedded and path.exists() and path.read_text() != self._identity

    def remember(self) -> None:
        """Record which embedded cluster the state belongs to; call this after a finished run."""
        if self.embedded:
            self._remembered.write_text(self._identity)

    def stop(self) -> None:
        """Stop the embedded cluster and its simulated hosts."""
        if not self.embedded:
            return
        self._remembered.unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        simulator.down(self.name)
        simulated_hosts.down(self.name)

    @contextmanager
    def held(self, command: str) -> Iterator[None]:
        """Keep other commands from an embedded stack while one command works on it.

        Args:
            command: The command as the user types it, for example ``make up``.
        """
        if not self.embedded:
            yield
            return
        with one_run(self.folder.with_name(f".{self.name}.run"), command):
            yield

    @contextmanager
    def unsalted(self) -> Iterator[None]:
        """Keep the engine's ``encryptionsalt`` out of a committed stack file.

        The engine writes the salt of a stack's passphrase into the stack file. The passphrase of an
        embedded stack exists only on this machine. So its salt is kept in the cache, and is added
        to the stack file only while a command runs. Other stacks share their passphrase, so their
        salt belongs into the file. A file that contains secrets keeps its salt too, because nobody
        could decrypt the secrets without it.
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
            # The engine rewrites the file without its blank lines; restore the original if only
            # those changed.
            same = yaml.safe_load(rest) == yaml.safe_load(original)
            self.file.write_bytes(original if same else rest)


def erase(name: str) -> None:
    """Stop an embedded cluster and delete all of its files."""
    simulator.down(name)
    simulated_hosts.down(name)
    cache = toolchain.cache_dir()
    shutil.rmtree(cache / "embedded" / name, ignore_errors=True)
    shutil.rmtree(cache / "tmp" / name, ignore_errors=True)
    for left in (f"{name}.salt", f"{name}.cluster", f".{name}.lock", f".{name}.run"):
        (cache / "embedded" / left).unlink(missing_ok=True)
