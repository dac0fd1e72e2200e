"""The assembly of a host's script: header, functions, one call."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

SYSTEMS = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "amzn", "ol")
"""Values of ``ID`` in os-release(5) that the scripts accept."""
MODULES = ("overlay", "br_netfilter")
"""Kubernetes documentation, "Container Runtimes": modules of a node."""
SYSCTL: Mapping[str, str] = {
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.ipv4.ip_forward": "1",
}
"""Kubernetes documentation, "Container Runtimes": network settings of a node."""
KERNEL = "4.18"
"""Oldest kernel of the systems above (RHEL 8)."""
DISK_MIB = 1024
"""MiB that must be free in /var/lib: room for backups, an initramfs and containerd's state."""
LOCK_LIMIT = 300
"""Seconds to wait for another script on the same host."""

LINT = "# shellcheck disable=SC2015 # a && b || fail: fail ends the script\n"

_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SYSCTL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+")


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
    """The text of one file of functions beside this module."""
    return (Path(__file__).parent / f"{name}.sh").read_text()


def assemble(settings: Mapping[str, str], *texts: str) -> str:
    """Header, functions, and the call as the last line, so that a cut-off script does nothing."""
    return "\n".join((LINT + header(settings), *texts, 'main "$@" </dev/null\n'))


def prepare(
    *,
    swap_off: bool = True,
    modules: Sequence[str] = MODULES,
    sysctl: Mapping[str, str] = SYSCTL,
    blacklist: Sequence[str] = ("nouveau", "nova_core"),
    systems: Sequence[str] = SYSTEMS,
    kernel: str = KERNEL,
    disk_mib: int = DISK_MIB,
    lock_limit: int = LOCK_LIMIT,
) -> str:
    """The script of phase ``prepare``.

    :param swap_off: turn swap off and comment its lines in /etc/fstab.
    :param modules: kernel modules to load now and at boot.
    :param sysctl: kernel settings to set now and at boot.
    :param blacklist: kernel modules that must not load by themselves (none on hosts without GPU).
    :raises ValueError: a name that its file's format can't carry.
    """
    for name in (*modules, *blacklist):
        if not _MODULE.fullmatch(name):
            raise ValueError(f"kernel module {name!r}: wanted letters, digits, - and _")
    for key, value in sysctl.items():
        if not _SYSCTL_KEY.fullmatch(key):
            raise ValueError(f"sysctl {key!r}: wanted names joined by dots")
        if not value or value != value.strip() or not value.isprintable():
            raise ValueError(f"sysctl {key}: {value!r}: wanted one printable line")
    settings = {
        "GC_PHASE": "prepare",
        "GC_LOCK_LIMIT": str(lock_limit),
        "GC_SYSTEMS": " ".join(systems),
        "GC_KERNEL": kernel,
        "GC_DISK_MIB": str(disk_mib),
        "GC_SWAP_OFF": str(swap_off).lower(),
        "GC_MODULES": " ".join(modules),
        "GC_SYSCTL_TEXT": _lines([f"{key} = {value}" for key, value in sysctl.items()]),
        "GC_BLACKLIST": " ".join(blacklist),
        "GC_BLACKLIST_TEXT": _lines(_blacklist(blacklist)),
    }
    rows = each("each_sysctl", list(sysctl.items()))
    return assemble(settings, rows, part("library"), part("preflight"), part("prepare"))


def runtime(
    *,
    default_runtime: str = "nvidia",
    cdi: bool = False,
    systemd_cgroup: bool = True,
    runtime_path: str = "/usr/bin/nvidia-container-runtime",
    lock_limit: int = LOCK_LIMIT,
) -> str:
    """The script of phase ``runtime``.

    :param default_runtime: ``nvidia`` makes it the runtime of pods that name none; ``runc`` leaves
        the default as it is.
    :param cdi: let containerd inject devices by the Container Device Interface.
    :param systemd_cgroup: cgroups by systemd, as kubelet's default since Kubernetes 1.22.
    :param runtime_path: the NVIDIA runtime's path on hosts (the toolkit packages' own).
    """
    settings = {
        "GC_PHASE": "runtime",
        "GC_LOCK_LIMIT": str(lock_limit),
        "GC_DEFAULT_RUNTIME": default_runtime,
        "GC_CDI": str(cdi).lower(),
        "GC_SYSTEMD_CGROUP": str(systemd_cgroup).lower(),
        "GC_RUNTIME_PATH": runtime_path,
    }
    return assemble(settings, *map(part, ("library", "preflight", "containerd_config", "runtime")))


def _blacklist(modules: Sequence[str]) -> list[str]:
    """Lines of modprobe.d(5); nouveau's own option keeps it from the display if it does load."""
    options = ["options nouveau modeset=0"] if "nouveau" in modules else []
    return [f"blacklist {name}" for name in modules] + options


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines)) if lines else ""
