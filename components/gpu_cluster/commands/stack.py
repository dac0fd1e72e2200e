"""The Pulumi stack that a command works on.

This module must not import `lab`, which commands for a real cluster don't need.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from gpu_cluster.commands.lock import one_run
from gpu_cluster.commands.project import ROOT
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.node_range import natural_order


@dataclass(frozen=True)
class Stack:
    """A Pulumi stack, identified by its name; its file is `Pulumi.<name>.yaml`."""

    name: str

    @classmethod
    def named(cls) -> Stack:
        """Return the stack that ``STACK`` names (default ``dev``); its file may have faults."""
        return cls(os.environ.get("STACK", "dev"))

    @classmethod
    def current(cls) -> Stack:
        """Return the stack that ``STACK`` names (``dev`` by default).

        Raises:
            ConfigError: Its file has faults; the error lists all of them.
        """
        stack = cls.named()
        _ = stack.cluster
        return stack

    @cached_property
    def cluster(self) -> Cluster:
        """Return the settings that the stack file declares.

        Raises:
            ConfigError: The file has faults; the error lists all of them.
        """
        return load_stack_file(self.file)

    @property
    def pools_in_maintenance(self) -> dict[str, str]:
        """Return the pool of each node in maintenance; empty if no pool lists the node by name."""
        pools = {name: pool.name for pool in self.cluster.pools for name in pool.node_names}
        names = sorted(self.cluster.nodes_in_maintenance, key=natural_order)
        return {name: pools.get(name, "") for name in names}

    @property
    def _own(self) -> bool:
        """Return True if the context is an embedded cluster's: ``gpu-cluster-<name>``."""
        return self.cluster.kubernetes.context == f"gpu-cluster-{self.name}"

    @property
    def is_fake(self) -> bool:
        """Return whether an embedded cluster replaces the stack's real cluster (``--embedded``).

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
        return cache_dir() / "embedded" / self.name

    @property
    def scratch(self) -> Path:
        """Return the folder for temporary files of the stack's runs."""
        return cache_dir() / "tmp" / self.name

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the embedded cluster's kubeconfig.

        If the embedded cluster replaces a real one, the context in that file has the real cluster's
        name.
        """
        return self.folder / ("fake.kubeconfig" if self.is_fake else "kubeconfig")

    @contextmanager
    def held(self, command: str) -> Iterator[None]:
        """Keep other commands from an embedded stack while one command works on it.

        Args:
            command: The command as the user types it, for example ``gpu-cluster up``.
        """
        if not self.embedded:
            yield
            return
        with one_run(self.folder.with_name(f".{self.name}.run"), command):
            yield

    def digest(self) -> str:
        """Return the SHA-256 sum of the stack file as each command leaves it.

        A run that was killed may have left the engine's salt in the file.
        """
        with self.unsalted():
            pass
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

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
            without_salt = b"".join(
                line for line in lines if not line.startswith(b"encryptionsalt:")
            )
            # The engine rewrites the file without its blank lines; restore the original if only
            # those changed.
            same = yaml.safe_load(without_salt) == yaml.safe_load(original)
            self.file.write_bytes(original if same else without_salt)
