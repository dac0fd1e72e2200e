"""Plugins whose engine was killed: they would wait for it for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

import toolchain
from toolchain.plugin import NO_ENGINE


def end_orphans() -> None:
    """Ends the toolchain's plugins that had an engine which no longer answers.

    A plugin that was started without one belongs to who asks it: another run's policy pack renders
    a chart by it (`policies.charts`), another `make` asks for its version (`toolchain.plugin`).
    """
    tools = toolchain.ensure("pulumi-resource-kubernetes", "pulumi-resource-command").values()
    ours = {tool.path.resolve() for tool in tools}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if not words[0].startswith("/") or Path(words[0]).resolve() not in ours:
            continue
        engine = next((word for word in words[1:] if ":" in word), NO_ENGINE)
        if engine != NO_ENGINE and not _answers(engine):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(path.parent.name), signal.SIGTERM)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False
