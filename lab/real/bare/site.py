"""Test site: an admin workstation ("desk") and hosts, on one bridge between network namespaces."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster_lab.simulator import hosts
from lab.real.bare.machine import Machine
from lab.real.node import LIMIT, RealError, run_in
from lab.real.relay import End, Relay

REGISTRY_PORT = 5000
REGISTRY = f"localhost:{REGISTRY_PORT}"
"""Image registry as seen by the hosts.

Container runtimes connect to localhost over HTTP, without TLS.
"""
DESK = "198.18.7.254"


@dataclass
class Site:
    """Running test site: its hosts, and the "desk", a network namespace for the admin workstation.

    Attributes:
        desk: Process that keeps the desk's network namespace alive.
        machines: The hosts.
    """

    desk: subprocess.Popen[bytes]
    machines: Sequence[Machine]
    _relays: list[Relay] = field(default_factory=list)

    @property
    def at_the_desk(self) -> tuple[str, ...]:
        """Return the command prefix that runs a command in the desk's network namespace."""
        return ("nsenter", "-t", str(self.desk.pid), "-n", "--")

    def open(self) -> None:
        """Wait for the network namespace of the admin workstation, then create the bridge in it."""
        ours, desk_namespace = Path("/proc/self/ns/net"), Path(f"/proc/{self.desk.pid}/ns/net")
        while desk_namespace.readlink() == ours.readlink():
            time.sleep(0.02)
        self.run(
            f"ip link set lo up; ip link add bridge0 type bridge; "
            f"ip addr add {DESK}/24 dev bridge0; ip link set bridge0 up"
        )

    def run(self, command: str, limit: float = LIMIT) -> str:
        """Run a shell command in the desk's network namespace; return its output."""
        return run_in(self.desk.pid, "the desk", command, limit)

    def serve(self, near: int, port: int) -> None:
        """Make a server on this machine's loopback reachable on the loopback of all hosts.

        The server listens on `port`; the hosts connect to the port `near`.
        """
        for machine in self.machines:
            self._relays.append(Relay(End(machine.pid, near), End(0, port)))

    def connect(self, machine: Machine) -> None:
        """Connect a host to the bridge; wait until the desk can reach its SSH server."""
        name, pid = machine.name, machine.pid
        self.run(
            f"ip link add {name} type veth peer name node0 netns {pid}; "
            f"ip link set {name} master bridge0 up"
        )
        machine.run(
            f"ip link set lo up; ip addr add {machine.address}/24 dev node0; "
            f"ip link set node0 up; ip route add default via {DESK}"
        )
        self._until(f"sshd of {name}", f"bash -c 'exec 3<>/dev/tcp/{machine.address}/22'")

    def close(self) -> None:
        """Close the relays and kill the desk's process; the kernel then removes the bridge."""
        for relay in self._relays:
            relay.close()
        self.desk.kill()
        self.desk.wait()

    def _until(self, subject: str, command: str) -> None:
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                self.run(command)
                return
            except RealError as error:
                if time.monotonic() > deadline:
                    raise RealError(f"{subject}: {error}") from None
                time.sleep(0.2)


@contextlib.contextmanager
def running(
    cluster: str, machines: Sequence[Machine], built_parts: Mapping[str, Path], key: str
) -> Iterator[Site]:
    """Start the hosts and the desk, the machine that manages them; remove both at the end.

    Args:
        cluster: Cluster name of the hosts.
        machines: The hosts.
        built_parts: Paths of the mock NVML library and of the test program `probe`, by file name.
        key: Public SSH key that may log in to the hosts as root.
    """
    # setpriv kills the desk's process when this process ends for any reason.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
    site = Site(subprocess.Popen(command, stdin=subprocess.DEVNULL), machines)
    try:
        site.open()
        for machine in machines:
            machine.start(built_parts, key)
            site.connect(machine)
        yield site
    finally:
        hosts.down(cluster)
        for machine in machines:
            machine.stop()
        site.close()
