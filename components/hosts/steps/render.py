"""The assembly of a host's script: header, functions, one call."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.hosts.settings.system import System
from components.hosts.steps.steps import Steps

SYSTEMS = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "amzn", "ol")
"""Values of ``ID`` in os-release(5) that the scripts accept."""
KERNEL = "4.18"
"""Oldest kernel of the systems above (RHEL 8)."""
DISK_MIB = 1024
"""MiB that must be free in /var/lib: room for backups, an initramfs and containerd's state."""
LOCK_LIMIT = 300
"""Seconds to wait for another script on the same host."""
PACKAGE_LIMIT = 120
"""Seconds to wait for a package manager that is at work."""

LINT = "# shellcheck disable=SC2015 # a && b || fail: fail ends the script\n"

CONTROL_PLANE_PORTS = ("6443/tcp", "2379-2380/tcp", "10250/tcp", "10257/tcp", "10259/tcp")
WORKER_PORTS = ("10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp")
"""Kubernetes documentation, "Ports and Protocols"."""

_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def header(settings: Mapping[str, str]) -> str:
    """Shell assignments whose values arrive as they are, whatever is in them.

    :raises ValueError: a name that is no shell name, a value with a NUL (no shell can hold one).
    """
    lines = []
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ValueError(f"{name!r}: wanted a name of capitals, digits and underscores")
        if "\0" in value:
            raise ValueError(f"{name}: found a NUL character; a shell can't hold one")
        lines.append(f"{name}={shlex.quote(value)}\n")
    return "".join(lines)


def each(name: str, rows: Sequence[Sequence[str]]) -> str:
    """A shell function that calls its arguments once per row, the row's words appended as data."""
    calls = "".join(f'    "$@" {shlex.join(row)}\n' for row in rows)
    return f"{name}() {{\n{calls or '    :' + chr(10)}}}\n"


@functools.cache
def part(name: str) -> str:
    """The text of one file of functions beside this module, without its comments.

    The engine writes all scripts before and after each command: a sixth of them was comments.
    Shellcheck's own stay, for `make check` judges the assembled text.
    """
    text = (Path(__file__).parent / f"{name}.sh").read_text()
    return re.sub(r"^[ \t]*#(?! shellcheck ).*\n", "", text, flags=re.M)


def assemble(settings: Mapping[str, str], *texts: str) -> str:
    """Header, functions, and the call as the last line, so that a cut-off script does nothing."""
    return "\n".join((LINT + header(settings), *texts, 'main "$@" </dev/null\n'))


def prepare(
    *,
    system: System | None = None,
    control_plane: bool = False,
    blacklist: Sequence[str] = ("nouveau", "nova_core"),
    systems: Sequence[str] = SYSTEMS,
    kernel: str = KERNEL,
    disk_mib: int = DISK_MIB,
    lock_limit: int = LOCK_LIMIT,
    package_limit: int = PACKAGE_LIMIT,
    steps: Steps | None = None,
) -> str:
    """The script of phase ``prepare``.

    :param system: what the operating system gets; the defaults of ``config.System`` where None.
    :param control_plane: the host's open ports are those of the control plane.
    :param blacklist: kernel modules that must not load by themselves (none on hosts without GPU).
    :param steps: what is installed; nothing where None.
    :raises ValueError: a name that its file's format can't carry.
    """
    steps = steps or Steps()
    system = system or System()
    for name in blacklist:
        if not _MODULE.fullmatch(name):
            raise ValueError(f"kernel module {name!r}: wanted letters, digits, - and _")
    sysctl = system.all_sysctl
    ports = (CONTROL_PLANE_PORTS if control_plane else WORKER_PORTS) + system.firewall_ports
    settings = {
        "GC_PHASE": "prepare",
        "GC_LOCK_LIMIT": str(lock_limit),
        "GC_SYSTEMS": " ".join(systems),
        "GC_PACKAGE_LIMIT": str(package_limit),
        "GC_KERNEL": kernel,
        "GC_DISK_MIB": str(disk_mib),
        "GC_SWAP_OFF": str(system.swap_off).lower(),
        "GC_MODULES": " ".join(system.modules),
        "GC_SYSCTL_TEXT": _lines([f"{key} = {value}" for key, value in sysctl.items()]),
        "GC_LIMITS_TEXT": _lines(_limits(system)),
        "GC_SELINUX": system.selinux.value,
        "GC_FIREWALL": system.firewall.value,
        "GC_PORTS": " ".join(dict.fromkeys(ports)),
        "GC_BLACKLIST": " ".join(blacklist),
        "GC_BLACKLIST_TEXT": _lines(_blacklist(blacklist)),
        "GC_STEPS": " ".join(steps.names),
        **steps.settings,
    }
    rows = each("each_sysctl", list(sysctl.items()))
    rows += each("each_repository", steps.repositories)
    rows += each("each_driver_location", [(place,) for place in steps.driver_locations])
    rows += each("each_cuda_location", [(place,) for place in steps.cuda_locations])
    parts = ("library", "preflight", "system", "firewall", *steps.parts, "prepare")
    return assemble(settings, rows, *map(part, parts))


def _limits(system: System) -> list[str]:
    """Lines of limits.conf(5): ``*`` does not mean root there."""
    return [
        f"{who} {kind} {item} {'unlimited' if value < 0 else value}"
        for item, value in system.limits.items()
        for who in ("*", "root")
        for kind in ("soft", "hard")
    ]


def _blacklist(modules: Sequence[str]) -> list[str]:
    """Lines of modprobe.d(5); nouveau's own option keeps it from the display if it does load."""
    options = ["options nouveau modeset=0"] if "nouveau" in modules else []
    return [f"blacklist {name}" for name in modules] + options


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines)) if lines else ""
