"""Fakes that only these tests put on a host (``stand_ins/``), and a unit to run."""

from __future__ import annotations

from pathlib import Path

from tests.hosts.machine import Running

STAND_INS = Path(__file__).parent / "stand_ins"
UNIT = "[Service]\nExecStart=/usr/bin/sleep 100000\n[Install]\nWantedBy=multi-user.target\n"


def put(host: Running, *names: str) -> None:
    """These programs, where root's PATH has them first."""
    for name in names:
        host.write(f"/usr/local/bin/{name}", (STAND_INS / name).read_text())
        host.run(f"chmod 755 /usr/local/bin/{name}")
