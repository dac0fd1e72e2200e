"""Attack: a host returns a boot id that contains shell commands or never ends."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.hosts.reboot.reboot import reboot_command

HOSTILE = (
    "x' ; touch owned; '",
    "$(touch owned)",
    "`touch owned`",
    "x\ntouch owned\n",
    '"; touch owned; "',
)


@pytest.mark.parametrize("boot_id", HOSTILE)
@pytest.mark.parametrize("user", ["root", "admin"])
def test_a_boot_id_is_compared_and_never_run(user: str, boot_id: str, tmp_path: Path) -> None:
    programs = {
        "cat": 'printf %s "$SHOWN"',
        "systemctl": 'echo "$*" >>rebooted',
        "sudo": 'shift; exec "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(shown: str) -> None:
        subprocess.run(
            ["/bin/sh", "-c", reboot_command(user, boot_id)],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "SHOWN": shown},
            timeout=30,
            check=False,
        )

    run("another")
    assert not (tmp_path / "rebooted").exists()
    run(boot_id.rstrip("\n"))
    assert not (tmp_path / "owned").exists()
    # The shell drops trailing newlines of a command's output, so a boot id that ends in a newline
    # never matches.
    assert (tmp_path / "rebooted").exists() is not boot_id.endswith("\n")
