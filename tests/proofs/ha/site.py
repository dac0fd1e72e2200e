"""Three control planes and a worker on bare hosts, behind a real haproxy or a real kube-vip."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from lab.real import build, parts
from lab.real.bare.machine import Machine
from lab.real.bare.site import DESK
from lab.real.node import RealError
from tests.proofs.real.bare import LIMIT, Stack, standing

ROLES = {
    "cp-1": "control-plane", "cp-2": "control-plane", "cp-3": "control-plane",
    "gpu-1": "gpu-worker",
}  # fmt: skip
MEMBERS = ("cp-1", "cp-2", "cp-3")
ROOT = Path(__file__).resolve().parents[3]
PORT = 6443
ENDPOINT = f"{DESK}:{PORT}"
VIP = "198.18.7.253"
"""Address that kube-vip gives to one of the control planes."""
PROGRAMS = "etcd kube-apiserver kube-controller-manager kube-scheduler"
BALANCER = """defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
frontend endpoint
    bind {endpoint}
    default_backend members
backend members
    option httpchk GET /readyz
    default-server check check-ssl verify none inter 1s fall 2 rise 2
    default-server on-marked-down shutdown-sessions
{servers}
"""
ETCDCTL = (
    "etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt "
    "--key /etc/kubernetes/pki/etcd/server.key"
)
HEALTHY = f"{ETCDCTL} endpoint health --cluster"
STARTED = ("started", False)
"""Status of a member of etcd that runs, and that it has a vote."""
PKI = "etc/kubernetes/pki"
PAGE = ROOT / "docs/how-to/lost-control-plane.md"
RESTORE = "<!-- run by: tests/proofs/ha/test_etcd.py -->"
DISK = "512M"
"""Size of a file system that a test fills."""
BACK = 300
"""Seconds in which a control plane must be back."""
KILL = """pid=$(pidof kubeadm) || exit 1
while [ "$(cat "/proc/$pid/comm")" != sshd ] && [ "$pid" -gt 1 ]; do
    parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
    kill -KILL "$pid"
    pid=$parent
done"""
"""Shell lines that kill kubeadm, and the script that started it, as a failing host does."""
LOSE = """kubeadm reset --force --skip-phases=remove-etcd-member
while read -r folder; do rm -rf "$folder"; done </var/lib/gpu-cluster/cluster/directories
rm -rf /var/lib/gpu-cluster/cluster /etc/cni/net.d/10-real.conf /usr/libexec/kubernetes
rmdir --ignore-fail-on-non-empty /usr/libexec"""
"""Shell lines that delete a control plane's files and containers, and all records of its join."""

Json = dict[str, Any]


def documented_restore() -> str:
    """Return the documented shell lines that restore a snapshot of etcd."""
    (text,) = re.findall(rf"{re.escape(RESTORE)}\n *```sh\n(.*?) *```", PAGE.read_text(), re.DOTALL)
    return str(text)


@dataclass
class Writing:
    """Client that writes through the endpoint (`tests.proofs.ha.writer`).

    Attributes:
        result: What the client printed at its end.
    """

    process: subprocess.Popen[str]
    result: Json = field(default_factory=dict)

    def wait(self, number: int) -> None:
        """Wait until a number of further writes is confirmed."""
        assert self.process.stdout is not None
        for _ in range(number):
            assert self.process.stdout.readline(), "the client ended"

    def end(self) -> None:
        """Let the client end, and read its result."""
        output, _ = self.process.communicate(timeout=LIMIT)
        self.result = json.loads(output.splitlines()[-1])


@dataclass
class Ha:
    """The hosts with their project, and what the tests do to them."""

    stack: Stack

    def machine(self, name: str) -> Machine:
        """Return a host."""
        return next(machine for machine in self.stack.site.machines if machine.name == name)

    def root(self, name: str) -> Path:
        """Return the root folder of a host as seen from this machine."""
        return self.stack.hosts[name].root

    def members(self) -> dict[str, tuple[str, bool]]:
        """Return the members of etcd: status, and whether the member has no vote, by name."""
        listed = self.stack.run_kubectl(f"-n kube-system exec etcd-cp-1 -- {ETCDCTL} member list")
        rows = (line.split(", ") for line in listed.splitlines())
        return {row[2]: (row[1], row[5] == "true") for row in rows}

    def kill_kubeadm(self, host: str, pattern: str) -> int:
        """Run `up` and kill the host's kubeadm as soon as a file exists; return the exit status.

        Args:
            host: Name of the host.
            pattern: Pattern of the file's path, in which `*` stands for parts of a name.

        Raises:
            RealError: The file did not appear while `up` ran.
        """
        root = self.root(host)
        assert not any(root.glob(pattern)), f"{host} has {pattern} before kubeadm ran"
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.stack.project.command, "up")
            while not any(root.glob(pattern)):
                if running.done():
                    raise RealError(f"{host} never had {pattern}: {running.result().stdout}")
                time.sleep(0.005)
            self.machine(host).run(KILL)
            return running.result().returncode

    def versions(self) -> dict[str, str]:
        """Return the version of each kubelet and API server, by name of the node or pod."""
        nodes = self.stack.kubectl("get nodes")["items"]
        kubelets = {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes
        }
        pods = self.stack.kubectl("get pods -n kube-system -l component=kube-apiserver")["items"]
        servers = {
            pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2]
            for pod in pods
        }
        return {**kubelets, **servers}

    def wait_down(self, host: str) -> None:
        """Wait until the cluster counts the pods of a killed control plane as not ready."""
        line = f"-n kube-system wait --for=condition=Ready=false --timeout={BACK}s pod/etcd-{host}"
        self.stack.run_kubectl(line)

    def snapshots(self, host: str) -> list[Path]:
        """Return the snapshots of etcd that a host keeps, the oldest first."""
        return sorted((self.root(host) / "var/lib/gpu-cluster/snapshots").glob("*"))

    def holders(self) -> list[str]:
        """Return the control planes that have the address of kube-vip."""
        found = {name: self.machine(name).run(f"ip -o address show to {VIP}") for name in MEMBERS}
        return [name for name, line in found.items() if line]

    @contextlib.contextmanager
    def cut_off(self, host: str) -> Iterator[None]:
        """Cut a host's network meanwhile."""
        self.stack.site.run(f"ip link set {host} down")
        try:
            yield
        finally:
            self.stack.site.run(f"ip link set {host} up")

    def kill_member(self, host: str) -> None:
        """Stop the kubelet of a control plane, and kill its programs."""
        self.machine(host).run(f"systemctl stop kubelet; kill -KILL $(pidof {PROGRAMS})")

    def start_member(self, host: str) -> None:
        """Start the kubelet of a control plane again, which starts its programs."""
        self.machine(host).run("systemctl start kubelet")

    @contextlib.contextmanager
    def full_disk(self, host: str) -> Iterator[None]:
        """Fill the file system that has etcd's data of a host meanwhile."""
        machine = self.machine(host)
        self.move_data(host, f"mount -t tmpfs -o mode=700,size={DISK} tmpfs /var/lib/etcd")
        try:
            machine.run("head -c 4G /dev/zero >/var/lib/etcd/full 2>/dev/null || :")
            yield
        finally:
            machine.run("rm -f /var/lib/etcd/full")
            self.move_data(host, "umount /var/lib/etcd")

    def move_data(self, host: str, command: str) -> None:
        """Stop a control plane, run a command while its data are elsewhere, and start it again."""
        self.kill_member(host)
        self.machine(host).run(
            f"while pidof etcd; do kill -KILL $(pidof etcd); sleep 0.2; done; "
            f"mv /var/lib/etcd/member /run/member; {command} && mv /run/member /var/lib/etcd/"
        )
        self.start_member(host)
        self.wait_ready(host)

    def lose_member(self, host: str) -> None:
        """Delete all that a control plane had on its disk, without a word to etcd."""
        self.kill_member(host)
        self.machine(host).run(LOSE)

    def certificate(self, host: str) -> x509.Certificate:
        """Return the certificate of a control plane's API server."""
        return x509.load_pem_x509_certificate(
            (self.root(host) / PKI / "apiserver.crt").read_bytes()
        )

    def age_certificate(self, host: str) -> None:
        """Replace the certificate of an API server by one of the same authority that ends soon."""
        folder, now = self.root(host) / PKI, datetime.now(UTC)
        authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        old = self.certificate(host)
        aged = x509.CertificateBuilder(
            authority.subject, old.subject, old.public_key(), x509.random_serial_number(),
            now - timedelta(305), now + timedelta(60), list(old.extensions),
        ).sign(key, hashes.SHA256())  # fmt: skip
        (folder / "apiserver.crt").write_bytes(aged.public_bytes(Encoding.PEM))

    def restore(self, host: str) -> None:
        """Run the documented lines that restore a snapshot of etcd on a host."""
        text = documented_restore().replace("192.0.2.11", self.machine(host).address)
        tool = self.root(host) / "run/etcdutl"
        shutil.copy(build.build_etcd_tools()["etcdutl"], tool)
        tool.chmod(0o755)
        self.machine(host).run(f"set -e\nPATH=$PATH:/run\n{text}\nrm -r /root/stopped", BACK)

    def declare_without(self, *names: str) -> list[Json]:
        """Take hosts out of the stack file, and return the hosts that it had."""
        before: list[Json] = []

        def edit(cluster: Json) -> None:
            before.extend(cluster["hosts"])
            cluster["hosts"] = [host for host in before if host["name"] not in names]

        self.stack.project.edit(edit)
        return before

    def wait_ready(self, host: str) -> None:
        """Wait until a control plane's own API server is ready, and all members of etcd run."""
        server = f"https://{self.machine(host).address}:{PORT}"
        line = (
            f"kubectl --kubeconfig /etc/kubernetes/admin.conf --server {server} get --raw /readyz"
        )
        end = time.monotonic() + BACK
        while True:
            try:
                self.machine(host).run(line)
                self.stack.run_kubectl(f"-n kube-system exec etcd-{host} -- {HEALTHY}")
                return
            except RealError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.5)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        """Write through the endpoint meanwhile."""
        command = [sys.executable, "-m", "tests.proofs.ha.writer", str(self.stack.kubeconfig)]
        with subprocess.Popen(
            [*self.stack.site.at_the_desk, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as process:
            try:
                yield (writing := Writing(process))
                writing.end()
            finally:
                process.kill()


@contextlib.contextmanager
def three(folder: Path, version: str = parts.KUBELET) -> Iterator[Ha]:
    """Start three bare hosts for control planes, a worker and the balancer.

    Args:
        folder: Folder of the project.
        version: Kubernetes version that the project declares.
    """
    with (
        standing(folder, version, roles=ROLES, endpoint=ENDPOINT) as stack,
        balancer(stack, folder),
    ):
        yield Ha(stack)


@contextlib.contextmanager
def three_with_kube_vip(folder: Path) -> Iterator[Ha]:
    """Start three bare hosts for control planes with kube-vip, and a worker.

    Args:
        folder: Folder of the project.
    """
    with standing(folder, roles=ROLES, endpoint=f"{VIP}:{PORT}", kube_vip=True) as stack:
        yield Ha(stack)


@contextlib.contextmanager
def balancer(stack: Stack, folder: Path) -> Iterator[None]:
    """Run haproxy at the desk, in front of all control planes."""
    servers = "\n".join(
        f"    server {machine.name} {machine.address}:{PORT}"
        for machine in stack.site.machines
        if machine.name in MEMBERS
    )
    file = folder / "haproxy.cfg"
    file.write_text(BALANCER.format(endpoint=ENDPOINT, servers=servers))
    with subprocess.Popen([*stack.site.at_the_desk, "haproxy", "-db", "-f", str(file)]) as process:
        try:
            yield
        finally:
            process.terminate()
