"""What a simulated host is made of: the declared host, its settings, its state on disk."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from toolchain import cache_dir

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


DRIVER = "595.91.07"
"""The driver version that simulated GPU hosts show unless told otherwise."""


class HostError(RuntimeError):
    """A simulated host can't be made, started or stopped; the message names host and cure."""


class SimulatedHost(Protocol):
    """What this package reads of ``components.settings.hosts.Host``."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """What the simulated hardware shows.

    ``gpus``: NVIDIA PCI devices on each host with GPUs (default 8), or by host
    name. ``driver``: version of the NVIDIA kernel driver that those hosts show as loaded, ``None``
    for no driver, for all hosts or by host name. ``mode``: ``namespaces`` or ``plain``; ``None``
    takes namespaces where they work. ``system``: ``debian``, or ``rocky`` for an RPM host (in
    namespaces only), or ``docker`` for Debian with Docker, for all hosts or by host name.
    """

    gpus: int | Mapping[str, int] = 8
    driver: str | Mapping[str, str | None] | None = DRIVER
    mode: str | None = None
    system: str | Mapping[str, str] = "debian"

    def system_of(self, host: SimulatedHost) -> str:
        """The operating system that ``host`` shows."""
        return self.system if isinstance(self.system, str) else self.system.get(host.name, "debian")

    def driver_of(self, host: SimulatedHost) -> str:
        """The version of the driver that ``host`` shows as loaded; empty for none."""
        if not str(host.role).startswith("gpu-"):
            return ""
        one = self.driver
        return (one.get(host.name, DRIVER) if isinstance(one, Mapping) else one) or ""

    def gpus_of(self, host: SimulatedHost) -> int:
        """The number of simulated NVIDIA PCI devices of ``host``."""
        if not str(host.role).startswith("gpu-"):
            return 0
        return self.gpus if isinstance(self.gpus, int) else self.gpus.get(host.name, 8)


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything a running host depends on: it is restarted when one of these changes."""

    name: str
    address: str
    port: int
    user: str
    authorized_key: str
    gpus: int
    driver: str
    mode: str
    lower: str
    layer: str

    def save(self, folder: Path) -> None:
        """Write ``spec.json`` below ``folder``, whole or not at all."""
        draft = folder / "spec.json.new"
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        draft.replace(folder / "spec.json")

    @classmethod
    def load(cls, folder: Path) -> Spec | None:
        """Read what ``save`` wrote; ``None`` where there is nothing readable."""
        try:
            return cls(**json.loads((folder / "spec.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None


@dataclasses.dataclass(frozen=True)
class HostStatus:
    """One simulated host as it is now. ``root``: its file system as this machine sees it."""

    name: str
    address: str
    port: int
    mode: str
    running: bool
    pid: int | None
    root: Path | None


def cluster_dir(name: str) -> Path:
    """The folder of one embedded cluster in the cache: keys and hosts live below it."""
    check_name("cluster", name)
    return cache_dir() / "embedded" / name


def hosts_dir(name: str) -> Path:
    """The folder that holds one folder per simulated host."""
    return cluster_dir(name) / "hosts"


def check_name(what: str, name: str) -> None:
    """Refuse names that can't be a host name and a folder.

    :raises HostError: with the name found and the form wanted.
    """
    if not NAME.fullmatch(name):
        raise HostError(
            f"{what} name {name!r}: wanted 1 to 63 letters, digits, dots, dashes or underscores"
        )


def check_loopback(host: SimulatedHost) -> None:
    """Refuse an address that is not this machine's loopback: the host keys are public.

    :raises HostError: with the address found and the form wanted.
    """
    try:
        loopback = ipaddress.ip_address(host.address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise HostError(
            f"host {host.name}: address {host.address!r} is not a loopback address; simulated "
            "hosts have published keys and listen on 127.0.0.0/8 or ::1 only"
        )
