"""Stop Pulumi plugin processes whose engine was killed; otherwise they would never end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Set
from functools import partial
from pathlib import Path

from gpu_cluster.machine.processes import send

NO_ENGINE = "127.0.0.1:1"
"""Address that a plugin gets if no engine runs it. Nothing listens there."""
LIMIT = 15.0
"""Seconds that a plugin gets to stop its commands; the command plugin takes up to 4.5."""


def end_orphans(plugins: Set[Path]) -> None:
    """Stop plugin processes whose engine no longer answers, and wait until they have ended.

    A plugin that still works for the killed run would interfere with the next run.

    Plugins that were started without an engine are left alone: the policy pack of another run uses
    a plugin to render a chart (`gpu_rules.charts`), and another `make` requests the version of a
    plugin (`gpu_cluster_lab.toolchain.plugin`).

    Args:
        plugins: The plugins' executables; other programs are left alone.
    """
    orphans = [folder for folder in Path("/proc").glob("[0-9]*") if _is_orphan(folder, plugins)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        # Check each process again just before the signal, because its pid may have been reused.
        for folder in orphans:
            send(int(folder.name), number, partial(_is_orphan, folder, plugins))
        deadline = time.monotonic() + LIMIT
        while orphans and time.monotonic() < deadline:
            time.sleep(0.05)
            orphans = [folder for folder in orphans if _is_orphan(folder, plugins)]


def _is_orphan(folder: Path, plugins: Set[Path]) -> bool:
    """Check whether a process is a plugin that lost its engine.

    `process` is its folder in /proc.
    """
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    if not words[0].startswith("/") or Path(words[0]).resolve() not in plugins:
        return False
    engine = next((word for word in words[1:] if ":" in word), NO_ENGINE)
    return engine != NO_ENGINE and _is_near(folder) and not _is_answering(engine)


def _is_near(folder: Path) -> bool:
    """Check whether a process has this process's network namespace.

    In another namespace, the address of the process's engine can't be reached.
    """
    try:
        return (folder / "ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


def _is_answering(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False
