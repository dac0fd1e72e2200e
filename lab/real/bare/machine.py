"""A simulated host with what a real kubelet needs: its own network, control groups and devices."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.real import cgroups, files
from lab.real.mock import Mock
from lab.real.node import LIMIT, NAMESPACES, RealError, run_in
from lab.simulator.hosts import keys, namespaced, rootfs
from lab.simulator.hosts.model import Spec, hosts_dir

EQUIPMENT = Path(__file__).with_name("equipment.sh")
TOOLKIT = ("nvidia-ctk", "nvidia-container-runtime")
"""Programs of the simulator's layer in /usr/bin that come by packages here."""
BARE = (
    "systemctl stop containerd; dpkg -P containerd runc && rm -rf /var/lib/containerd/* && "
    f"cd /usr/bin && rm {' '.join(TOOLKIT)}"
)
"""Takes away what the root has and a bare host hasn't."""
_AROUND = """for group in /sys/fs/cgroup/*/"$0"; do echo $$ >"$group/cgroup.procs"; done
exec unshare --net --cgroup "$@" """


@dataclass(frozen=True)
class Machine:
    """One host.

    Attributes:
        cluster: whose hosts `lab.simulator.hosts` takes down.
        name: of host and node.
        address: in the site's network.
        mock: its GPUs.
    """

    cluster: str
    name: str
    address: str
    mock: Mock

    @property
    def folder(self) -> Path:
        """Where its files are on this machine."""
        return hosts_dir(self.cluster) / self.name

    @property
    def _group(self) -> str:
        """What its control groups are called; other sites have hosts of the same name."""
        return f"{self.cluster}-{self.name}"

    @property
    def pid(self) -> int:
        """Its first process, as this machine counts it.

        Raises:
            RealError: it isn't booted.
        """
        with contextlib.suppress(OSError, ValueError):  # its child is sshd, once it has booted
            root = namespaced.root(self.folder)
            parent = Path(f"/proc/{root.parts[2] if root else 0}")
            (child,) = (parent / f"task/{parent.name}/children").read_text().split()
            if (parent.parent / child / "comm").read_text().strip() == "sshd":
                return int(child)
        raise RealError(
            f"host {self.name}: found no sshd; wanted one; cure: see {self.folder / 'log'}"
        )

    def start(self, parts: Mapping[str, Path], authorized_key: str) -> None:
        """Boot it, bare but for the driver: its library and its devices are there.

        Args:
            parts: the mock's library and the probe, by file name.
            authorized_key: who may log in as root.
        """
        ssh = self.folder / "ssh"
        ssh.mkdir(parents=True)
        (ssh / "host_key").touch(mode=0o600)
        (ssh / "host_key").write_text(keys.host_private_key(self.name))
        (ssh / "authorized_keys").write_text(f"{authorized_key.strip()}\n")
        files.driver(self.mock, parts, self.folder / "upper")
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
        """Run a shell command on it, past SSH; its output."""
        place = f"host {self.name}"
        return run_in(self.pid, place, command, limit, (*NAMESPACES, "-C"))

    def _booted(self) -> bool:
        with contextlib.suppress(RealError):
            return self.pid > 0
        return False

    def stop(self) -> None:
        """Take its control groups away, when its processes are gone."""
        cgroups.remove(self._group)
