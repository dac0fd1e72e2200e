"""Install fake programs from `fake_programs/` on a simulated host; has a sample systemd unit."""

from __future__ import annotations

from pathlib import Path

from tests.proofs.hosts.machine import Running

FAKE_PROGRAMS = Path(__file__).parent / "fake_programs"
SELINUX = "/etc/selinux/config"
UNIT = "[Service]\nExecStart=/usr/bin/sleep 100000\n[Install]\nWantedBy=multi-user.target\n"


def put(host: Running, *names: str) -> None:
    """Install the named fake programs in /usr/local/bin, which is first in root's PATH."""
    for name in names:
        host.write(f"/usr/local/bin/{name}", (FAKE_PROGRAMS / name).read_text())
        host.run(f"chmod 755 /usr/local/bin/{name}")
