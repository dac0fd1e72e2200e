"""Simulated host for a real kubelet, with its own network, control groups and devices."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster_lab.simulator.hosts import keys, namespaced, rootfs
from gpu_cluster_lab.simulator.hosts.model import Spec, hosts_dir
from lab.real import cgroups, files
from lab.real.mock import Mock
from lab.real.node import LIMIT, NAMESPACES, RealError, run_in

EQUIPMENT = Path(__file__).with_name("equipment.sh")
TOOLKIT = ("nvidia-ctk", "nvidia-container-runtime")
"""Programs of the simulator's layer in /usr/bin that packages install on these hosts."""
BARE = (
    "systemctl stop containerd; dpkg -P containerd runc && rm -rf /var/lib/containerd/* && "
    f"cd /usr/bin && rm {' '.join(TOOLKIT)}"
)
"""Command that removes, from the host's root, the programs that an unprepared host doesn't have."""
_AROUND = """for group in /sys/fs/cgroup/*/"$0"; do echo $$ >"$group/cgroup.procs"; done
exec unshare --net --cgroup "$@" """


@dataclass(frozen=True)
class Machine:
    """Host of the test site on which a real kubelet is installed.

    Attributes:
        cluster: Cluster name under which `gpu_cluster_lab.simulator.hosts` removes the host.
        name: Name of the host and the node.
        address: IP address in the site's network.
        mock: GPUs of the host, as simulated by the mock NVML library.
    """

    cluster: str
    name: str
    address: str
    mock: Mock

    @property
    def folder(self) -> Path:
        """Return the folder of the host's files on this machine."""
        return hosts_dir(self.cluster) / self.name

    @property
    def _group(self) -> str:
        """Return the unique name of the host's control groups.

        The group name contains the cluster, because hosts of several clusters may have the same
        name.
        """
        return f"{self.cluster}-{self.name}"

    @property
    def pid(self) -> int:
        """Return the pid of the host's first process as seen from this machine.

        Raises:
            RealError: The host isn't booted.
        """
        # Once the host has booted, the only child of its first process is sshd.
        with contextlib.suppress(OSError, ValueError):
            root = namespaced.root(self.folder)
            parent = Path(f"/proc/{root.parts[2] if root else 0}")
            (child,) = (parent / f"task/{parent.name}/children").read_text().split()
            if (parent.parent / child / "comm").read_text().strip() == "sshd":
                return int(child)
        raise RealError(
            f"host {self.name}: found no sshd; wanted one; cure: see {self.folder / 'log'}"
        )

    def start(self, built: Mapping[str, Path], authorized_key: str) -> None:
        """Boot the host with the NVIDIA driver's library and devices, but without other software.

        Args:
            built: Paths of the mock NVML library and of the test program `probe`, by file name.
            authorized_key: Public key that may log in as root.
        """
        ssh = self.folder / "ssh"
        ssh.mkdir(parents=True)
        (ssh / "host_key").touch(mode=0o600)
        (ssh / "host_key").write_text(keys.host_private_key(self.name))
        (ssh / "authorized_keys").write_text(f"{authorized_key.strip()}\n")
        files.driver(self.mock, built, self.folder / "upper")
        spec = Spec(
            name=self.name,
            address="0.0.0.0",  # noqa: S104 - in the network of the site alone
            port=22,
            user="root",
            authorized_key=authorized_key.strip(),
            gpus=self.mock.gpus,
            driver=self.mock.driver,
            mode="namespaces",
            lower=str(rootfs.debian_root(print)),
            layer=str(rootfs.fixture_layer()),
        )
        spec.save(self.folder)
        cgroups.make(self._group)
        around = ["sh", "-c", _AROUND, cgroups.name_of(self._group)]
        namespaced.start(self.folder, spec, namespaced.Equipment(EQUIPMENT, around))
        deadline = time.monotonic() + LIMIT
        while not self._booted() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.run(BARE)

    def run(self, command: str, limit: float = LIMIT) -> str:
        """Run a shell command in the host's namespaces, not over SSH; return its output."""
        place = f"host {self.name}"
        return run_in(self.pid, place, command, limit, (*NAMESPACES, "-C"))

    def _booted(self) -> bool:
        with contextlib.suppress(RealError):
            return self.pid > 0
        return False

    def stop(self) -> None:
        """Remove the host's control groups, after its processes have ended."""
        cgroups.remove(self._group)
