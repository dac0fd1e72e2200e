"""The embedded cluster of a stack, with its simulated hardware and simulated hosts."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpu_cluster.charts.links import link_chart
from gpu_cluster.commands import charts
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.stack import Stack
from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import control_plane
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.hardware import (
    Hardware,
    absent,
    hardware_of,
    load_hardware,
    write_hardware,
)
from gpu_rules.faults import ConfigError, Fault, FaultError


@dataclass(frozen=True)
class EmbeddedCluster:
    """The embedded cluster of a stack; `gpu_cluster.commands.lab.embedded_cluster` returns it."""

    stack: Stack
    tools: tuple[str, ...] = control_plane.TOOLS

    def variables(self) -> dict[str, str]:
        """Return the environment variables for commands on the stack."""
        key, _ = simulated_hosts.client_key(self.stack.name)
        result = {
            "KUBECONFIG": str(self.stack.kubeconfig),
            "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
        }
        if self.stack.is_fake:
            # The hosts of a stack whose real cluster is replaced are not simulated.
            result["GPU_CLUSTER_INSPECTION"] = "cluster"
        link_chart(ROOT / charts.FAKE_CHARTS, Path(simulator.__file__).with_name("charts"))
        result["GPU_CHARTS"] = charts.directory()
        return result

    @property
    def hardware_file(self) -> Path:
        """Return the path of the file that describes the embedded cluster's simulated hardware."""
        return ROOT / "lab" / "hardware" / f"{self.stack.name}.yaml"

    def hardware(self) -> Hardware:
        """Return the simulated hardware that the hardware file describes.

        Without a hardware file, the hardware is derived from the stack file. For a stack on
        an embedded cluster, it is written to the hardware file. For an embedded cluster that
        replaces a real cluster, the hardware is derived again at each start and has no hosts.

        Raises:
            ConfigError: The hardware file has faults; the error lists all of them.
            OSError: The hardware file can't be written.
        """
        if self.hardware_file.exists():
            return load_hardware(self.hardware_file)
        if self.stack.is_fake:
            return self._declared_hardware(with_hosts=False)
        write_hardware(self.hardware_file, self.stack.name, self._declared_hardware())
        print(
            f"{self.hardware_file.relative_to(ROOT)}: written, with the nodes and hosts that "
            f"{self.stack.file.name} declares; edit it to add or remove simulated machines"
        )
        return load_hardware(self.hardware_file)

    def _declared_hardware(self, *, with_hosts: bool = True) -> Hardware:
        """Return simulated hardware that matches the stack's pools, hosts and driver."""
        declared = self.stack.cluster
        hosts = declared.hosts
        return hardware_of(declared.pools, hosts, with_hosts=with_hosts)

    def note_absent_machines(self) -> None:
        """Print which declared machines are missing from the simulated hardware file."""
        if not self.hardware_file.exists():
            return
        try:
            simulated, declared = load_hardware(self.hardware_file), self.stack.cluster
            lacking = list(ranges(absent(simulated, declared.pools, declared.hosts)))
        except ConfigError:
            return  # No message: `gpu-cluster start` reports the faults of the hardware file.
        if lacking:
            print(
                f"{self.hardware_file.relative_to(ROOT)} has no {', '.join(lacking)}, declared by "
                f"{self.stack.file.name}. If they should exist, add them there and run "
                "`gpu-cluster start`."
            )

    def start(self) -> None:
        """Start the embedded cluster and its simulated hosts; parts that run are left alone.

        Raises:
            ConfigError: The hardware file has faults; the error lists all of them.
            OSError: A file can't be written, or a program of the system is missing.
            HostError: A simulated host can't be started.
            SimulatorError: The cluster can't be started.
        """
        hardware = self.hardware()
        if not self.stack.is_fake:
            _, public_key = simulated_hosts.client_key(self.stack.name)
            settings = hardware.host_settings()
            machines = hardware.machines()
            simulated_hosts.up(self.stack.name, machines, public_key, settings, progress=print)
        started = simulator.start(self.stack.name, hardware)
        if self.stack.is_fake:
            text = started.kubeconfig.read_text()
            content = yaml.safe_load(text)
            content["contexts"][0]["name"] = self.stack.cluster.kubernetes.context
            content["current-context"] = self.stack.cluster.kubernetes.context
            self.stack.kubeconfig.touch(mode=0o600)
            self.stack.kubeconfig.write_text(yaml.safe_dump(content))

    def require_running(self) -> None:
        """Raise a FaultError if the embedded cluster does not run; this method starts nothing."""
        status = simulator.status(self.stack.name)
        if status.ready and self.stack.kubeconfig.exists():
            return
        more = " --embedded" if self.stack.is_fake else ""
        missing = f"{', '.join(status.missing)} not running" if status.running else "no process"
        start = f"gpu-cluster start --stack {self.stack.name}{more}"
        raise FaultError(
            Fault(
                f"embedded cluster of stack {self.stack.name}",
                missing,
                "one that runs: a preview starts nothing",
                f"run `{start}`",
            )
        )

    @property
    def _identity(self) -> str:
        """Return an identifier of the embedded cluster: the SHA-256 sum of its CA's key.

        The CA signs the certificates of the cluster. Two embedded clusters with the same
        name have different identifiers.
        """
        authority = simulator.authority(self.stack.name)
        return hashlib.sha256(authority.read_bytes()).hexdigest() if authority.exists() else ""

    @property
    def _remembered(self) -> Path:
        return self.stack.folder.with_name(f"{self.stack.name}.cluster")

    def replaced(self) -> bool:
        """Return whether the embedded cluster was recreated since the last finished run.

        A cluster is recreated if its folder was removed or it could not be started again. The
        Pulumi state then contains objects that no longer exist.
        """
        path = self._remembered
        return path.exists() and path.read_text() != self._identity

    def remember(self) -> None:
        """Record which embedded cluster the Pulumi state belongs to; call this after each run."""
        self._remembered.write_text(self._identity)

    def stop(self) -> None:
        """Stop the embedded cluster and its simulated hosts."""
        self._remembered.unlink(missing_ok=True)
        self.stack.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.stack.scratch, ignore_errors=True)
        simulator.down(self.stack.name)
        simulated_hosts.down(self.stack.name)


def erase(name: str) -> None:
    """Stop an embedded cluster and delete all of its files."""
    simulator.down(name)
    simulated_hosts.down(name)
    cache = cache_dir()
    shutil.rmtree(cache / "embedded" / name, ignore_errors=True)
    shutil.rmtree(cache / "tmp" / name, ignore_errors=True)
    for file_name in (f"{name}.salt", f"{name}.cluster", f".{name}.lock", f".{name}.run"):
        (cache / "embedded" / file_name).unlink(missing_ok=True)
