"""Steps of the preparation that change the operating system: which a host declares, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from components.settings.hosts.host import Role
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.runtime import Engine
from components.settings.hosts.system import Firewall, LimitItem, Selinux, System

CONTROL_PLANE_PORTS = ("6443/tcp", "2379-2380/tcp", "10250/tcp", "10257/tcp", "10259/tcp")
WORKER_PORTS = ("10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp")
"""Kubernetes documentation, "Ports and Protocols"."""

UNITS: Mapping[Engine, tuple[str, ...]] = {
    Engine.CONTAINERD: ("containerd",),
    Engine.DOCKER: ("docker", "containerd"),
    Engine.CRI_O: ("crio",),
    Engine.K3S: ("k3s", "k3s-agent"),
    Engine.RKE2: ("rke2-server", "rke2-agent"),
}
"""Services from which containers inherit their limits."""


@dataclass(frozen=True)
class Machine:
    """What the system's steps need to know of a host.

    Attributes:
        system: what is declared.
        ports: its open ports beside those that are declared.
        blacklist: kernel modules that must not load on their own (none on hosts without GPU).
        engine: the container engine, whose containers have its own limits.
        excluded: UUIDs of GPUs that the driver leaves out.
        proxy: by which its container engine pulls images, where there is one.
    """

    system: System
    ports: tuple[str, ...]
    blacklist: tuple[str, ...]
    engine: Engine = Engine.CONTAINERD
    excluded: tuple[str, ...] = ()
    proxy: Proxy | None = None


def _swap(host: Machine) -> Mapping[str, str] | None:
    return {} if host.system.swap_off else None


def _modules(host: Machine) -> Mapping[str, str] | None:
    modules = host.system.modules
    return {"GC_MODULES": " ".join(modules)} if modules else None


def _sysctl(host: Machine) -> Mapping[str, str] | None:
    return {} if host.system.all_sysctl else None


def _limits(host: Machine) -> Mapping[str, str] | None:
    """Lines of limits.conf(5): ``*`` does not mean root there."""
    lines = [
        f"{who} {kind} {item} {'unlimited' if value < 0 else value}"
        for item, value in host.system.limits.items()
        for who in ("*", "root")
        for kind in ("soft", "hard")
    ]
    memlock = host.system.limits.get(LimitItem.MEMLOCK)
    if not lines or memlock is None:
        return {"GC_LIMITS_TEXT": _lines(lines)} if lines else None
    locked = "infinity" if memlock < 0 else f"{memlock}K"
    return {
        "GC_LIMITS_TEXT": _lines(lines),
        "GC_LIMITS_UNITS": " ".join(UNITS[host.engine]),
        "GC_LIMITS_UNIT_TEXT": _lines(["[Service]", f"LimitMEMLOCK={locked}"]),
    }


def _proxy(host: Machine) -> Mapping[str, str] | None:
    """Lines of systemd.exec(5)."""
    variables = host.proxy.environment if host.proxy else {}
    if not variables:
        return None
    lines = [f'Environment="{name}={value}"' for name, value in variables.items()]
    return {
        "GC_PROXY_UNITS": " ".join(UNITS[host.engine]),
        "GC_PROXY_UNIT_TEXT": _lines(["[Service]", *lines]),
    }


def _selinux(host: Machine) -> Mapping[str, str] | None:
    mode = host.system.selinux
    return None if mode is Selinux.LEAVE else {"GC_SELINUX": mode.value}


def ports_of(role: Role) -> tuple[str, ...]:
    """Kubernetes documentation, "Ports and Protocols"."""
    control_plane = CONTROL_PLANE_PORTS if role.is_control_plane else ()
    return control_plane + (WORKER_PORTS if role.is_worker else ())


def _firewall(host: Machine) -> Mapping[str, str] | None:
    if host.system.firewall is Firewall.LEAVE:
        return None
    wanted = dict.fromkeys(host.ports + host.system.firewall_ports)
    return {"GC_FIREWALL": host.system.firewall.value, "GC_PORTS": " ".join(wanted)}


def _nouveau(host: Machine) -> Mapping[str, str] | None:
    return {"GC_BLACKLIST": " ".join(host.blacklist)} if host.blacklist else None


def _excluded(host: Machine) -> Mapping[str, str] | None:
    return {"GC_EXCLUDED": ",".join(host.excluded)} if host.excluded else None


SYSTEM: Mapping[str, Callable[[Machine], Mapping[str, str] | None]] = {
    "swap": _swap,
    "modules": _modules,
    "sysctl": _sysctl,
    "limits": _limits,
    "proxy": _proxy,
    "selinux": _selinux,
    "firewall": _firewall,
    "nouveau": _nouveau,
    "excluded": _excluded,
}
"""Steps of the operating system in their order: the settings that a host gives each, or None
where it doesn't declare it."""


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines)) if lines else ""
