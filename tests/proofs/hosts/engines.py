"""Helpers for the tests of CRI-O, K3s and RKE2.

Fake programs read and write the same files as the real container engines.
"""

from __future__ import annotations

import shutil

from tests.proofs.hosts.fakes import FAKE_PROGRAMS
from tests.proofs.hosts.machine import Running

CRIO_DROPIN = "/etc/crio/crio.conf.d/99-nvidia.toml"
SITE = """\
# the site's own
[crio.image]
pause_image = "registry.example.org/pause:3.10"
"""
PACKAGED = """\
[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_path = "/usr/libexec/crio/conmon"
"""


def install(host: Running, name: str, fake: str, unit: str, words: str = "") -> None:
    """Install a fake program as `name`; start it by a systemd unit with the arguments `words`."""
    shutil.copyfile(FAKE_PROGRAMS / fake, host.root / f"usr/local/bin/{name}")
    host.write(
        f"/etc/systemd/system/{unit}.service",
        f"[Service]\nEnvironmentFile=-/etc/default/{unit}\n"
        f"ExecStart=/usr/local/bin/{name} {words}\n[Install]\n",
    )
    host.run(f"chmod 755 /usr/local/bin/{name}; systemctl --no-reload enable --now {unit}")
    assert host.run(f"systemctl is-active {unit}").output == "active\n"


def start_crio(host: Running) -> Running:
    """Start CRI-O on a host with the packaged settings and an additional site-specific file."""
    host.write("/etc/crio/crio.conf", SITE)
    host.write("/etc/crio/crio.conf.d/10-crio.conf", PACKAGED)
    host.write("/usr/bin/crun", "#!/bin/sh\n")
    install(host, "crio", "crio", "crio")
    return host
