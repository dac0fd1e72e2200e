"""Node with real components in Linux namespaces: containerd and kubelet.

This project's host preparation configures containerd.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.phases import runtime_script
from gpu_cluster_lab.simulator.api import Access
from gpu_cluster_lab.simulator.kubelets import SERVICE, SERVICE_PORT
from lab.real import cgroups, files
from lab.real.host_gpus import HOST, HostGpus
from lab.real.mock import Mock
from lab.real.objects import GPU_NODES
from lab.real.relay import End, Relay

HERE = Path(__file__).parent
#: Seconds that a daemon of the node may need to start on a busy machine.
LIMIT = 120.0
#: Seconds that containerd may need to import the image (0.3 GB) on a busy machine.
IMPORT_LIMIT = 600.0


NAMESPACES = ("-m", "-p", "-n", "-u", "-i")
"""Options of nsenter for all namespaces of a node."""


class RealError(RuntimeError):
    """Error: a real component behaves unexpectedly.

    The message has the component, the cause and the remedy.
    """


def run_in(
    pid: int, place: str, command: str, limit: float, namespaces: Sequence[str] = ("-n",)
) -> str:
    """Run a shell command in the namespaces of a process; return its output.

    Args:
        pid: Process id.
        place: Description of the namespaces for error messages.
        command: Shell command.
        limit: Timeout in seconds.
        namespaces: Options of nsenter.

    Raises:
        RealError: The command failed; the message has its last lines.
    """
    paths = "PATH=/opt/real:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = ["env", "-i", paths, "LC_ALL=C", "HOME=/root"]
    done = subprocess.run(
        ["nsenter", "-t", str(pid), *namespaces, "--", *environment, "sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        raise RealError(
            f"{place}: {command.splitlines()[0][:80]!r} ended with {done.returncode}; "
            f"wanted: 0; cure: see the lines below\n{tail}"
        )
    return done.stdout


@dataclass
class Node:
    """Node with real components in Linux namespaces of this machine.

    Attributes:
        name: Name of the node and the host.
        work: Folder of the node.
        lower: Debian root that is the lower layer of the node's overlay; `/` if the node has this
            machine's GPUs.
        parts: Executables by name.
        gpus: GPUs of the node: a mock's, or this machine's.
        port: Port of its kubelet, also on this machine's loopback, where the API server requests
            logs.
    """

    name: str
    work: Path
    lower: Path
    parts: Mapping[str, Path]
    gpus: Mock | HostGpus
    port: int = 10250
    _process: subprocess.Popen[bytes] | None = None
    _relays: list[Relay] = field(default_factory=list)
    _pid: int = 0

    @property
    def root(self) -> Path:
        """Return the root of the node's file system as seen from this machine."""
        return Path(f"/proc/{self._pid}/root")

    @property
    def mock(self) -> Mock:
        """Return the node's GPUs as simulated by the mock NVML library.

        Raises:
            RealError: The node has this machine's GPUs.
        """
        if isinstance(self.gpus, HostGpus):
            raise RealError(
                f"node {self.name}: found this machine's GPUs; wanted: the mock's; "
                "cure: set faults only on a mock"
            )
        return self.gpus

    @property
    def state(self) -> Path:
        """Return the path of the mock NVML library's state file on this node."""
        return self.work / "upper" / self.mock.state_path.relative_to("/")

    def start(self, host: DesiredHost, access: Access, archive: Path) -> None:
        """Start the node's namespaces, containerd with NVIDIA's runtime, and the kubelet.

        Raises:
            RealError: A component failed; the message has its last lines.
        """
        built_parts = {**self.parts, "image.tar": archive}
        files.write(self.work, built_parts, self.gpus, files.texts(self.name, self.port, access))
        self.spawn()
        self._connect(int(access.server.rpartition(":")[2]))
        self.run("systemctl start containerd")
        self.run("ctr -n k8s.io images import /opt/real/image.tar", IMPORT_LIMIT)
        self._prepare(host)
        self.start_kubelet()

    def spawn(self) -> int:
        """Create the node's Linux namespaces; return the pid of their first process."""
        cgroups.make(self.name)
        gpus = HOST if isinstance(self.gpus, HostGpus) else str(self.gpus.gpus)
        arguments = [self.name, str(self.work), str(self.lower), gpus, SERVICE]
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
        script = str(HERE / "node.sh")
        # setpriv kills the node's processes when this process ends for any reason.
        lives = ["setpriv", "--pdeathsig", "KILL"]
        with (self.work / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*lives, "unshare", *namespaces, "sh", script, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._pid = self._first_process()
        return self._pid

    def run(self, command: str, limit: float = LIMIT) -> str:
        """Run a shell command in the node; return its output."""
        return run_in(self._pid, f"node {self.name}", command, limit, NAMESPACES)

    def start_kubelet(self) -> None:
        """Start the kubelet, which joins the cluster with its client certificate."""
        labels = ",".join(f"{key}={value}" for key, value in GPU_NODES.items())
        self.run(
            "setsid sh -c 'echo $$ >/run/kubelet.pid; exec kubelet "
            "--config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.conf "
            f"--hostname-override={self.name} --node-ip=198.18.0.1 "
            "--cloud-provider=external "
            f"--node-labels={labels} "
            "--root-dir=/var/lib/kubelet --cert-dir=/var/lib/kubelet/pki' "
            "</dev/null >>/var/log/kubelet.log 2>&1 &"
        )

    def divide(self, *profiles: str) -> None:
        """Partition each GPU into MIG devices of these profiles; without profiles, disable MIG.

        The driver's list of capabilities and their device nodes are updated.
        """
        self.mock.mig = profiles
        self.mock.write(self.state)
        numbers = self.mock.capabilities
        lines = "".join(f"{name} {number}\n" for name, number in numbers.items())
        device_commands = "".join(
            f"mknod -m 444 nvidia-cap{minor} c 508 {minor}; " for minor in numbers.values()
        )
        self.run(
            "rm -rf /dev/nvidia-caps /proc/driver/*; "
            "mkdir -p /dev/nvidia-caps /proc/driver/nvidia-caps; cd /dev/nvidia-caps; "
            f"{device_commands}printf '{lines}' >/proc/driver/nvidia-caps/mig-minors"
        )

    def stop_kubelet(self) -> None:
        """Stop the node's kubelet; its pods keep running."""
        self.run(
            'pid=$(cat /run/kubelet.pid); kill "$pid"; '
            'while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done'
        )

    def stop(self) -> None:
        """Kill all processes of the node; mounts and networks end with the node's namespaces."""
        for relay in self._relays:
            relay.close()
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                if self._pid:
                    os.kill(self._pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(LIMIT)
        cgroups.remove(self.name)
        shutil.rmtree(self.work, ignore_errors=True)

    def pod_log(self, pod: dict[str, Any], container: str = "") -> str:
        """Return the log of a pod's container, including all its restarts."""
        meta = pod["metadata"]
        name = container or pod["spec"]["containers"][0]["name"]
        folder = f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        files = sorted((self.root / "var/log/pods" / folder / name).glob("*.log"))
        lines = "".join(file.read_text(errors="replace") for file in files).splitlines()
        return "\n".join(line.split(" ", 3)[-1] for line in lines)

    def log(self, program: str, lines: int = 15) -> str:
        """Return the last lines of the log of `kubelet` or `containerd`."""
        with contextlib.suppress(OSError):
            text = (self.work / "upper/var/log" / f"{program}.log").read_text(errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def _connect(self, api: int) -> None:
        """Start relays between the node's network and this machine's loopback.

        They connect the node to the API server, at its port and at its service IP, and connect the
        API server to the kubelet.
        """
        server, kubelet = End(0, api), End(self._pid, self.port)
        self._relays = [
            Relay(End(self._pid, api), server),
            Relay(End(self._pid, SERVICE_PORT, SERVICE), server),
            Relay(End(0, self.port), kubelet),
        ]

    def _first_process(self) -> int:
        if self._process is None:
            return 0
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and self._process.poll() is None:
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().strip() == "probe":
                        return int(pid)
            time.sleep(0.05)
        tail = (self.work / "node.log").read_text(errors="replace")[-800:]
        raise RealError(
            f"node {self.name}: its first process doesn't start; wanted: new namespaces and "
            f"mounts; cure: run as root outside of a container\n{tail}"
        )

    def _prepare(self, host: DesiredHost) -> None:
        """Run the phase `runtime` of this project's host preparation on the node."""
        script = runtime_script(host, inline=True)
        (self.work / "upper/root/runtime.sh").write_text(script)
        self.run("nvidia-ctk --quiet config >/etc/nvidia-container-runtime/config.toml")
        self.run("sh /root/runtime.sh apply")
