"""The script of phase ``prepare``: what a host declares of the system and of software.

A step costs its file in ``steps/``, and its line in `system_steps.SYSTEM` (or in `software.steps`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.desired.host import DesiredHost
from components.hosts import disruption
from components.hosts.script import COMMON, Declaration, assemble, given, library, others, step
from components.hosts.software import NAMES, PACKAGE_LIBRARY, Steps, steps
from components.hosts.system_steps import SYSTEM, Machine, ports_of
from components.settings.hosts.host import Role
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.runtime import Engine
from components.settings.hosts.system import System

NOUVEAU = ("nouveau", "nova_core")
"""Modules that hold the GPUs of a host and must not load on their own."""
LIBRARY = library(*COMMON, *PACKAGE_LIBRARY, "runfile", "drop_ins", "prepare")

_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


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
        *(system or System(), ports_of(role), tuple(blacklist), engine, tuple(excluded)),
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
        "each_sysctl": list(host.system.all_sysctl.items()) if host.system.sysctl else (),
        "each_repository": steps.repositories,
        "each_driver_location": [(place,) for place in steps.driver_locations],
        "each_cuda_location": [(place,) for place in steps.cuda_locations],
        "each_adapter_location": [(place,) for place in steps.adapter_locations],
    }
    declares = settings["GC_STEPS"].split()
    read = [
        LIBRARY,
        *map(step, declares),
        others(every, frozenset(declares)),
    ]
    own = {**rows, "each_sysctl": list(host.system.sysctl.items())}
    return assemble(settings, rows, read, inline=inline, declared=own)


def prepare_script(
    host: DesiredHost, join_token: str | None = None, *, inline: bool = False
) -> Declaration:
    """Return the script of phase ``prepare``; only GPU hosts keep nouveau from loading.

    Args:
        host: the host.
        join_token: kubeadm's bootstrap token, where the host joins: the script is a secret then.
        inline: as in `assemble`.
    """
    return prepare(
        blacklist=NOUVEAU if host.role.has_gpus else (),
        system=host.system,
        role=host.role,
        engine=host.runtime.engine,
        excluded=host.excluded_gpus,
        proxy=host.proxy,
        steps=steps(host, join_token),
        inline=inline,
    )


def disrupting(host: DesiredHost) -> str:
    """Return the lines of a host's preparation that disrupt its pods if they change."""
    machine = Machine(host.system, (), (), excluded=host.excluded_gpus)
    settings = {**steps(host).settings, **(SYSTEM["excluded"](machine) or {})}
    return disruption.lines(settings, disruption.PREPARE)
