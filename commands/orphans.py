"""Plugins whose engine was killed: they would wait for it for ever."""

from __future__ import annotations

import signal
import socket
import time
from functools import partial
from pathlib import Path

import toolchain
from lab.simulator.processes import send
from toolchain.plugin import NO_ENGINE

LIMIT = 15.0
"""Seconds that a plugin gets to end what it runs: the command plugin takes up to 8."""


def end_orphans() -> None:
    """Ends the toolchain's plugins that had an engine which no longer answers, and waits for them.

    What a plugin still does would race with what the next run does.

    A plugin that was started without one belongs to who asks it: another run's policy pack renders
    a chart by it (`policies.charts`), another `make` asks for its version (`toolchain.plugin`).
    """
    tools = toolchain.ensure("pulumi-resource-kubernetes", "pulumi-resource-command").values()
    ours = {tool.path.resolve() for tool in tools}
    orphans = [folder for folder in Path("/proc").glob("[0-9]*") if _is_orphan(folder, ours)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for folder in orphans:  # asked again while its pid is held
            send(int(folder.name), number, partial(_is_orphan, folder, ours))
        deadline = time.monotonic() + LIMIT
        while orphans and time.monotonic() < deadline:
            time.sleep(0.05)
            orphans = [folder for folder in orphans if _is_orphan(folder, ours)]


def _is_orphan(folder: Path, ours: set[Path]) -> bool:
    """Whether a process's folder in /proc is that of one of our plugins without its engine."""
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    if not words[0].startswith("/") or Path(words[0]).resolve() not in ours:
        return False
    engine = next((word for word in words[1:] if ":" in word), NO_ENGINE)
    return engine != NO_ENGINE and _is_near(folder) and not _answers(engine)


def _is_near(folder: Path) -> bool:
    """Whether a process is in our network: in another one its engine answers it alone."""
    try:
        return (folder / "ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False
