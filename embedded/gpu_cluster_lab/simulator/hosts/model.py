"""Data model of simulated hosts: the declared host, its settings and its state on disk."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gpu_cluster.machine.folders import cache_dir

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


DRIVER = "595.91.07"
"""Default driver version of simulated GPU hosts."""


class HostError(RuntimeError):
    """Error: a simulated host can't be created, started or stopped.

    The message has the host and the remedy.
    """


class SimulatedHost(Protocol):
    """Declared host that can be simulated.

    It has fields of `gpu_cluster.settings.hosts.host.Host`.
    """

    @property
    def name(self) -> str:
        """Return the host's name."""
        ...

    @property
    def role(self) -> str:
        """Return the host's role, such as `gpu-worker`."""
        ...

    @property
    def address(self) -> str:
        """Return the host's loopback address."""
        ...

    @property
    def port(self) -> int:
        """Return the port of the host's SSH server."""
        ...

    @property
    def user(self) -> str:
        """Return the user that logs in to the host over SSH."""
        ...


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """Simulated hardware and operating system of SSH hosts.

    Attributes:
        gpus: Number of NVIDIA PCI devices on each GPU host, for all hosts or by host name.
        driver: Version of the loaded NVIDIA kernel driver on GPU hosts, None for no driver; for all
            hosts or by host name.
        mode: How hosts are simulated, `namespaces` or `plain`; None means namespaces if the machine
            supports them.
        system: `debian`, `rocky` for an RPM host (only with namespaces), `docker` for Debian with
            Docker, `debian13` for Debian 13, or `fedora` for an RPM host with dnf 5; for all hosts
            or by host name.
    """

    gpus: int | Mapping[str, int] = 8
    driver: str | Mapping[str, str | None] | None = DRIVER
    mode: str | None = None
    system: str | Mapping[str, str] = "debian"

    def system_of(self, host: SimulatedHost) -> str:
        """Return the operating system of `host`."""
        return self.system if isinstance(self.system, str) else self.system.get(host.name, "debian")

    def driver_of(self, host: SimulatedHost) -> str:
        """Return the version of the loaded driver on `host`; empty for none."""
        if not str(host.role).startswith("gpu-"):
            return ""
        setting = self.driver
        return (setting.get(host.name, DRIVER) if isinstance(setting, Mapping) else setting) or ""

    def gpus_of(self, host: SimulatedHost) -> int:
        """Return the number of simulated NVIDIA PCI devices of `host`."""
        if not str(host.role).startswith("gpu-"):
            return 0
        return self.gpus if isinstance(self.gpus, int) else self.gpus.get(host.name, 8)


@dataclasses.dataclass(frozen=True)
class Spec:
    """All settings of a running host; if one of them changes, the host is restarted."""

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
        """Write `spec.json` into `folder` atomically."""
        draft = folder / "spec.json.new"
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        draft.replace(folder / "spec.json")

    @classmethod
    def load(cls, folder: Path) -> Spec | None:
        """Load `spec.json` from `folder`; return None if the file is missing or invalid."""
        try:
            return cls(**json.loads((folder / "spec.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None


@dataclasses.dataclass(frozen=True)
class HostStatus:
    """Current status of one simulated host.

    `root` is the folder of its file system as seen from this machine.
    """

    name: str
    address: str
    port: int
    mode: str
    running: bool
    pid: int | None
    root: Path | None


def cluster_dir(name: str) -> Path:
    """Return the folder of one embedded cluster in the cache, with its SSH keys and hosts."""
    check_name("cluster", name)
    return cache_dir() / "embedded" / name


def hosts_dir(name: str) -> Path:
    """Return the folder that has one subfolder per simulated host."""
    return cluster_dir(name) / "hosts"


def check_name(subject: str, name: str) -> None:
    """Check that a string can be used as host name and as folder name.

    Raises:
        HostError: The name is invalid.
    """
    if not NAME.fullmatch(name):
        raise HostError(
            f"{subject} name {name!r}: wanted 1 to 63 letters, digits, dots, dashes or underscores"
        )


def check_loopback(host: SimulatedHost) -> None:
    """Check that a host's address is a loopback address.

    Other machines must not reach the host, because its private host key is public.

    Raises:
        HostError: The address is not a loopback address.
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
