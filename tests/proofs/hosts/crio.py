"""Helpers for the tests of CRI-O: a host with the real daemon or its fake, and its answers."""

from __future__ import annotations

import http.client
import shutil
import socket
import tomllib
from pathlib import Path
from typing import Any

from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.fakes import FAKE_PROGRAMS
from tests.proofs.hosts.machine import Running, start

LIMIT = 20
"""Seconds to wait for the daemon's answer."""
DROPINS = "/etc/crio/crio.conf.d"
DROPIN = f"{DROPINS}/99-nvidia.toml"
SOCKET = "/run/crio/crio.sock"
VARIABLES = "/etc/sysconfig/crio"
UNIT = f"""\
[Service]
EnvironmentFile=-{VARIABLES}
ExecStart=/usr/local/bin/crio $CRIO_CONFIG_OPTIONS $CRIO_RUNTIME_OPTIONS
[Install]
WantedBy=multi-user.target
"""
"""The unit of CRI-O (contrib/systemd/crio.service) without systemd's own protocol."""
SITE = '[crio]\nstorage_driver = "vfs"\n'
PACKAGED = """\
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
disable_hostport_mapping = true
[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
monitor_path = "/usr/libexec/crio/conmon"
"""
"""Neither systemd nor nftables is on the host."""
CONMON = "#!/bin/sh\necho conmon version 2.1.6\n"
"""CRI-O asks conmon for its version and looks for pinns; without pods it runs neither."""


class _Engine(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("crio", timeout=LIMIT)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(LIMIT)
        self.sock.connect(str(self.path))


def says(host: Running, path: str = SOCKET) -> dict[str, Any]:
    """Return the section `crio.runtime` with which the daemon runs, from its socket."""
    connection = _Engine(host.root / path.lstrip("/"))
    try:
        connection.request("GET", "/config")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK
        section: dict[str, Any] = tomllib.loads(answer.read().decode())["crio"]["runtime"]
    finally:
        connection.close()
    return section


def script(**settings: Any) -> str:
    """Return the script of phase `runtime`; systemd does not run on simulated hosts."""
    return runtime(RuntimeSettings(engine=Engine.CRI_O, systemd_cgroup=False, **settings))


def start_daemon(cluster: str, program: Path | None) -> Running:
    """Start a host that runs CRI-O.

    Args:
        cluster: Name of the host's cluster.
        program: Path of the real daemon; None takes the fake.
    """
    host = start(cluster, "gpu-1", mode="namespaces")[0]
    shutil.copyfile(program or FAKE_PROGRAMS / "crio", host.root / "usr/local/bin/crio")
    host.write("/usr/local/bin/pinns", "#!/bin/sh\nexit 1\n")
    host.write("/usr/libexec/crio/conmon", CONMON)
    host.write("/etc/crio/crio.conf", SITE)
    host.write(f"{DROPINS}/10-crio.conf", PACKAGED)
    host.write("/etc/containers/policy.json", '{"default": [{"type": "reject"}]}')
    host.write("/etc/systemd/system/crio.service", UNIT)
    done = host.run(
        "chmod 755 /usr/local/bin/* /usr/libexec/crio/conmon;"
        # The host's root is an overlay, on which CRI-O's storage can't be.
        "mkdir -p /var/lib/containers && mount -t tmpfs storage /var/lib/containers;"
        "systemctl --no-reload enable --now crio"
    )
    assert done.status == 0, done
    answers(host)
    return host


def answers(host: Running, path: str = SOCKET) -> None:
    """Wait until the daemon listens on its socket."""
    done = host.run(f"for n in $(seq 100); do [ ! -S {path} ] || exit 0; sleep 0.2; done; exit 1")
    assert done.status == 0, host.run("tail -n 3 /var/log/simulated-systemd/crio.log").output


def restart(host: Running, path: str = SOCKET) -> None:
    """Restart the daemon, and wait until it listens again."""
    done = host.run(f"systemctl daemon-reload; rm -f {path}; systemctl restart crio")
    assert done.status == 0, done
    answers(host, path)
