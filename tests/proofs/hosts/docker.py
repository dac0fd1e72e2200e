"""Helpers for the tests of Docker: a host with the real daemon, scripts, and `docker info`."""

from __future__ import annotations

import json
from typing import Any

from gpu_cluster.settings.hosts.runtime import Docker, Engine, RuntimeSettings
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, start

CONFIG = "/etc/docker/daemon.json"
DOCKERD = "/usr/local/sbin/dockerd-apart --containerd=/run/containerd/containerd.sock"
APART = """\
#!/bin/sh
# Docker writes network settings, which are its namespace's own; the host's /proc/sys is read-only.
mount --make-rprivate / && mount -t proc proc /proc && exec /usr/sbin/dockerd "$@"
"""
UNIT = f"""\
[Service]
ExecStart=nsenter --net=/run/docker-net unshare --mount {DOCKERD}
ExecReload=/bin/kill -s HUP $MAINPID
"""
IPTABLES = '#!/bin/sh\nexec nsenter --net=/run/docker-net /usr/sbin/iptables "$@"\n'
EARLIER: dict[str, Any] = {
    "log-opts": {"max-size": "10m", "labels": 'it\'s <a> "b" & c'},
    "registry-mirrors": ["https://earlier.example.org"],
    "features": {"buildkit": True},
    "runtimes": {"kata": {"path": "/usr/bin/kata-runtime"}},
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    "max-concurrent-downloads": 7,
    "dns": [],
    "max-concurrent-uploads": 9007199254740993,
}


def script(**settings: Any) -> str:
    """Return the script of phase `runtime` for Docker.

    The cgroup driver is not changed, because systemd doesn't run on simulated hosts.
    """
    docker = Docker(**settings.pop("docker", {}))
    return runtime(
        RuntimeSettings(engine=Engine.DOCKER, systemd_cgroup=False, docker=docker, **settings)
    )


def start_docker(cluster: str) -> Running:
    """Start a host that runs Docker and has a daemon.json; Docker's data is on a tmpfs."""
    host = start(cluster, "gpu-1", mode="namespaces", system="docker")[0]
    host.write("/etc/systemd/system/docker.service", UNIT)
    host.write("/usr/local/sbin/iptables", IPTABLES)
    host.write("/usr/local/sbin/dockerd-apart", APART)
    host.write(CONFIG, json.dumps(EARLIER))
    done = host.run(
        "touch /run/docker-net; unshare --net=/run/docker-net ip link set lo up;"
        "chmod 755 /usr/local/sbin/*; mkdir -p /data /var/lib/docker;"
        "mount -t tmpfs data /data; mount -t tmpfs docker /var/lib/docker; adduser --quiet"
        " --disabled-password --gecos '' alice; systemctl --no-reload enable docker;"
        "systemctl restart docker"
    )
    assert done.status == 0, done
    return host


def says(host: Running) -> dict[str, Any]:
    """Return the output of `docker info` as a mapping."""
    information: dict[str, Any] = json.loads(host.run("docker info --format '{{json .}}'").output)
    return information


def merged(host: Running) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(host.read(CONFIG))
    return content


def pid(host: Running) -> str:
    return host.read("/run/simulated-systemd/docker.pid")


def changed_by_undo(changes: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return a comparison of host files without Docker's data and gpasswd(1)'s backup files."""
    mine = ("etc/group", "etc/gshadow")
    return {
        path: change
        for path, change in changes.items()
        if not path.startswith("var/lib/docker") and path.rstrip("-") not in mine
    }


REFUSING = """\
#!/bin/sh
# The daemon does not start with another folder for its data.
! grep -q data-root /etc/docker/daemon.json || exit 1
exec /usr/local/sbin/dockerd-real "$@"
"""


def refuse_data_root(host: Running) -> None:
    """Make the host's Docker daemon refuse to start with another data folder."""
    host.run("mv /usr/local/sbin/dockerd-apart /usr/local/sbin/dockerd-real")
    host.write("/usr/local/sbin/dockerd-apart", REFUSING)
    host.run("chmod 755 /usr/local/sbin/*")
