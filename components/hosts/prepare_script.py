"""The script of phase ``prepare``: what a host declares of the system and of software.

A step costs its file in ``steps/``, its line in `SYSTEM` here (or in `software.steps`), and its
word in ``steps/library/prepare.sh``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from components.hosts import disruption
from components.hosts.script import Declaration, assemble, given, library, others, step
from components.hosts.settings.host import Host, Role
from components.hosts.settings.proxy import Proxy
from components.hosts.settings.runtime import Engine
from components.hosts.settings.system import Firewall, LimitItem, Selinux, System
from components.hosts.software import NAMES, PACKAGE_LIBRARY, Steps, steps
from components.settings.cluster import Cluster

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
NOUVEAU = ("nouveau", "nova_core")
"""Modules that hold the GPUs of a host and must not load on their own."""
LIBRARY = library(
    *("base", "disruption", "expectations", "kept_steps", "preflight", *PACKAGE_LIBRARY),
    *("runfile", "drop_ins", "prepare"),
)

_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


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


def _ports(role: Role) -> tuple[str, ...]:
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


def prepare(
    *,
    system: System | None = None,
    role: Role = Role.CPU_WORKER,
    blacklist: Sequence[str] = NOUVEAU,
    systems: Sequence[str] = (),
    kernel: str = "",
    disk_mib: int | None = None,
    lock_limit: int | None = None,
    package_limit: int | None = None,
    engine: Engine = Engine.CONTAINERD,
    excluded: Sequence[str] = (),
    proxy: Proxy | None = None,
    steps: Steps | None = None,
    inline: bool = False,
) -> Declaration:
    """The script of phase ``prepare``. What isn't given is as `steps/library` has it.

    Args:
        system: what the operating system gets; the defaults of `System` where None.
        role: what the host is; its open ports follow from it.
        blacklist: kernel modules that must not load on their own (none on hosts without GPU).
        systems: values of ``ID`` in os-release(5) that are accepted.
        kernel: oldest one.
        disk_mib: MiB that must be free in /var/lib.
        lock_limit: seconds to wait for another script.
        package_limit: seconds to wait for a package manager, where ``steps`` don't say it.
        engine: the host's container engine.
        excluded: UUIDs of GPUs that the driver leaves out.
        proxy: by which its container engine pulls images; none where None.
        steps: what is installed; nothing where None.
        inline: as in `assemble`.

    Raises:
        ValueError: a name that its file's format can't carry.
    """
    steps = steps or Steps()
    for name in blacklist:
        if not _MODULE.fullmatch(name):
            raise ValueError(f"kernel module {name!r}: wanted letters, digits, - and _")
    host = Machine(
        *(system or System(), _ports(role), tuple(blacklist), engine, tuple(excluded)),
        proxy,
    )
    declared = {name: wanted(host) for name, wanted in SYSTEM.items()}
    chosen = {name: settings for name, settings in declared.items() if settings is not None}
    every = (*SYSTEM, *NAMES)
    settings = {
        "GC_PHASE": "prepare",
        "GC_LOCK_LIMIT": given(lock_limit),
        "GC_SYSTEMS": " ".join(systems),
        "GC_KERNEL": kernel,
        "GC_DISK_MIB": given(disk_mib),
        "GC_PACKAGE_LOCK_LIMIT": given(package_limit),
        "GC_STEPS": " ".join((*chosen, *steps.names)),
    }
    for found in (*chosen.values(), steps.settings):
        settings.update({name: value for name, value in found.items() if value})
    settings[disruption.SETTING] = disruption.lines(settings, disruption.PREPARE)
    rows = {
        "each_sysctl": list(host.system.all_sysctl.items()),
        "each_repository": steps.repositories,
        "each_driver_location": [(place,) for place in steps.driver_locations],
        "each_cuda_location": [(place,) for place in steps.cuda_locations],
        "each_adapter_location": [(place,) for place in steps.adapter_locations],
    }
    declares = settings["GC_STEPS"].split()
    read = [
        LIBRARY,
        *map(step, declares),
        others(*(name for name in every if name not in declares)),
    ]
    return assemble(settings, rows, read, inline=inline)


def prepare_script(
    cluster: Cluster, host: Host, join_token: str | None = None, *, inline: bool = False
) -> Declaration:
    """The script of phase ``prepare`` for ``host``: nouveau is kept out of GPU hosts only.

    Args:
        cluster: as this host sees it (`Cluster.of`).
        host: the host.
        join_token: kubeadm's bootstrap token, where the host joins: the script is a secret then.
        inline: as in `assemble`.
    """
    return prepare(
        blacklist=NOUVEAU if host.role.has_gpus else (),
        system=host.system or cluster.system,
        role=host.role,
        engine=(host.runtime or cluster.runtime).engine,
        excluded=_excluded_gpus(cluster, host),
        proxy=cluster.proxy,
        steps=steps(cluster, host, join_token),
        inline=inline,
    )


def disrupting(cluster: Cluster, host: Host) -> str:
    """What of ``host`` disrupts pods where it changes; ``cluster``: as the host sees it."""
    machine = Machine(cluster.system, (), (), excluded=_excluded_gpus(cluster, host))
    settings = {**steps(cluster, host).settings, **(_excluded(machine) or {})}
    return disruption.lines(settings, disruption.PREPARE)


def _excluded_gpus(cluster: Cluster, host: Host) -> tuple[str, ...]:
    declared = [pool.unhealthy_devices.get(host.node) for pool in cluster.pools]
    return tuple(sorted(uuid for devices in declared if devices for uuid in devices.uuid))


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines)) if lines else ""
