"""Tests that plugins end on a signal.

To end a plugin, the engine sends a signal, waits 5 s and then kills the plugin. A user would have
to wait that long for a plugin that ignores the signal.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import subprocess
from pathlib import Path

import pytest

from gpu_cluster_lab.toolchain.plugin import NO_ENGINE
from tests.toolchain.plugins.rig import LIMIT, PLUGINS, until

TGKILL = {"x86_64": 234, "aarch64": 131}
"""System call number of tgkill(2), for which the C library has no function (Linux, unistd.h)."""


def _send(process: int, thread: int, number: int) -> None:
    if ctypes.CDLL(None).syscall(TGKILL[platform.machine()], process, thread, number) != 0:
        raise OSError("tgkill failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["pulumi-language-python", "pulumi-resource-command"])
def test_a_signal_that_does_not_wake_the_main_thread_ends_a_plugin(
    name: str, number: signal.Signals
) -> None:
    """Send the signal to another thread, so that the waiting main thread isn't woken.

    A signal that arrives just before the main thread waits has the same effect; it made 1 of 70
    runs take 5 s longer.
    """
    command = [str(PLUGINS / name), NO_ENGINE]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:  # When the block ends, Popen waits for the process and closes its pipe.
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            tasks = Path(f"/proc/{process.pid}/task")
            threads = until(
                lambda: {int(path.name) for path in tasks.iterdir()} - {process.pid},
                "more threads than the main one",
            )
            _send(process.pid, min(threads), number)
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
