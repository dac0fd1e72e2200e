"""Simulated hosts for B1 and B2: new for each run, with or without network delay.

The end state of hosts is read directly from their file systems, not over SSH.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import processes, rootfs
from gpu_cluster_lab.simulator.hosts.model import cluster_dir, hosts_dir
from gpu_cluster_lab.simulator.ports import free_ports
from lab.benchmarks.measure import BenchmarkError

ROOT = Path(__file__).parents[2]
FILES = (
    "etc/fstab",
    "etc/modules-load.d/gpu-cluster.conf",
    "etc/sysctl.d/zz-gpu-cluster.conf",
    "etc/modprobe.d/gpu-cluster-blacklist.conf",
    "etc/containerd/config.toml",
    "etc/containerd/conf.d/99-nvidia.toml",
)
"""Files that the steps write; each tool must write the same bytes."""
CALM = """
[plugins."io.containerd.gc.v1.scheduler"]
  pause_threshold = 0.0
"""
"""containerd setting that makes an idle containerd check for garbage once a second.

By default it checks 130 times a second because its first check was short (containerd 1.6.20,
gc/scheduler/scheduler.go, `run`). This would take a fifth of the two threads that 200 hosts share
here; on separate machines it would delay nothing.
"""
WATCHES = Path("/proc/sys/fs/inotify/max_user_instances")
"""Number of inotify instances that a user may have; each host's containerd has one."""
VALUES = ("net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables")


@dataclass(frozen=True)
class FleetHost:
    """Simulated host with the port of its SSH server, or of a relay to that server."""

    name: str
    port: int
    role: str = "gpu-worker"
    address: str = "127.0.0.1"
    user: str = "root"

    @property
    def host_key(self) -> str:
        """Return the host's public SSH key, which is derived from the host's name."""
        return simulated.host_public_key(self.name)


@dataclass
class Fleet:
    """Group of simulated hosts for one benchmark.

    Attributes:
        base: Prefix of the names of the embedded clusters whose folders contain the hosts.
        hosts: Hosts with the ports on which they listen.
        seen: Hosts with the ports to which tools connect: the ports of the delaying relay, if there
            is a relay.
        round_trip: Network round trip in milliseconds.
    """

    base: str
    hosts: list[FleetHost]
    seen: list[FleetHost]
    round_trip: int
    key: Path = field(init=False)
    names: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the name of the embedded cluster whose hosts currently run."""
        return self.names[-1]

    def fresh(self) -> None:
        """Replace all hosts by new, unprepared hosts, and start them.

        The files of earlier hosts are kept until the end: ext4 without a journal skips inodes of
        files that were removed in the last minute, one by one (Linux, fs/ext4/ialloc.c,
        `recently_deleted`), which would slow down each new file after a removal.
        """
        if self.names:
            processes.end(*hosts_dir(self.name).iterdir())
        self.names.append(f"{self.base}-{len(self.names)}")
        self.key, public = simulated.client_key(self.name)
        config = "etc/containerd/config.toml"
        text = (rootfs.debian_root(print) / config).read_text()
        for host in self.hosts:
            place = hosts_dir(self.name) / host.name / "upper" / config
            place.parent.mkdir(parents=True)
            place.write_text(text + CALM)
        simulated.up(self.name, self.hosts, public, simulated.HostSettings(mode="namespaces"))

    def state(self, host: FleetHost) -> str:
        """Return a hash of a host's end state, and whether containerd was restarted.

        The hash covers files, swap, kernel settings and the running container runtime.
        """
        root = simulated.root_of(self.name, host.name)
        if root is None:
            raise BenchmarkError(f"host {host.name}: not running")
        total = hashlib.sha256()
        for path in FILES:
            file = root / path
            total.update(file.read_bytes() if file.exists() else b"absent")
        total.update((root / "proc/swaps").read_bytes())
        for key in VALUES:
            # A simulated host records the kernel settings that it sets; all other settings are this
            # machine's.
            places = (
                root / "run/simulated-kernel/sysctl" / key,
                Path("/proc/sys", *key.split(".")),
            )
            total.update(next((p.read_bytes() for p in places if p.exists()), b"unset"))
        total.update(str((root / "sys/module/br_netfilter").is_dir()).encode())
        pid = root / "run/simulated-systemd/containerd.pid"
        started = pid.stat().st_mtime_ns if pid.exists() else 0
        dropin = root / FILES[-1]
        after = dropin.exists() and started >= dropin.stat().st_ctime_ns
        return f"{total.hexdigest()[:16]} {'restarted' if after else 'old runtime'}"

    def states(self) -> set[str]:
        """Return the end states of all hosts as a set.

        It has one element if all hosts are equal.
        """
        return {self.state(host) for host in self.hosts}

    def save(self, folder: Path) -> None:
        """Save the configuration files of the first host to `folder`, for tools that copy files."""
        root = simulated.root_of(self.name, self.hosts[0].name)
        if root is None:
            raise BenchmarkError(f"host {self.hosts[0].name}: not running")
        for path in FILES:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, folder / path)


def require_watches(size: int) -> None:
    """Check that as many containerds as hosts can watch their folders on this machine.

    Raises:
        BenchmarkError: The kernel allows fewer inotify instances.
    """
    allowed = int(WATCHES.read_text())
    if allowed < 2 * size:
        raise BenchmarkError(
            f"{allowed} inotify instances for {size} hosts: run "
            f"`sysctl -w fs.inotify.max_user_instances={2 * size}` as root first"
        )


@contextlib.contextmanager
def fleet(size: int, round_trip: int) -> Iterator[Fleet]:
    """Yield a fleet of `size` hosts, and remove it afterwards.

    Tools connect to the hosts through a relay if `round_trip` is above 0 ms.
    """
    with_python = dict.fromkeys((*rootfs.PACKAGES, "python3"))  # Ansible needs Python on the hosts.
    rootfs.PACKAGES = tuple(with_python)
    base = f"bench-hosts-{os.getpid()}"
    ports = free_ports(2 * size)
    hosts = [FleetHost(f"gpu-{n}", port) for n, port in enumerate(ports[:size], start=1)]
    seen = [FleetHost(host.name, port) for host, port in zip(hosts, ports[size:], strict=True)]
    relay = made = None
    try:
        if round_trip:
            pairs = [f"{far.port}:{near.port}" for far, near in zip(seen, hosts, strict=True)]
            relay = subprocess.Popen(
                [sys.executable, "-m", "lab.benchmarks.relay", str(round_trip / 2), *pairs],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert relay.stdout is not None  # noqa: S101
            relay.stdout.readline()
        made = Fleet(base, hosts, seen if round_trip else hosts, round_trip)
        yield made
    finally:
        if relay is not None:
            relay.communicate()
        for name in made.names if made else ():
            simulated.down(name)
            shutil.rmtree(cluster_dir(name), ignore_errors=True)
