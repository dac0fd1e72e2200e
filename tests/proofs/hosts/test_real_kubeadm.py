"""Create and remove a cluster with the real kubeadm, built from its Go module.

Real parts are kubeadm with all phases except `SKIPPED`, containerd, and etcd, API server,
controller manager and scheduler with the flags that kubeadm wrote. A simulated host can't run
kubelet or pull images. A fake kubelet therefore runs the commands of the static pods as plain
processes and answers the health check, and this test creates its Node.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from gpu_cluster.hosts.kubeadm.access import ACCESS, check_key
from gpu_cluster.hosts.kubeadm.scripts import access_script, init_script
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import api
from lab.real import build
from lab.real.parts import KUBELET
from lab.real.relay import End, Relay
from tests.desired_host import desired_host
from tests.fixtures.programs import run_program
from tests.proofs.hosts import software
from tests.proofs.hosts.initialized import COPIED, declared
from tests.proofs.hosts.machine import Result, Running, differences, free_port

pytestmark = pytest.mark.full

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SKIPPED = ("addon/coredns", "addon/kube-proxy")
"""Phases of add-ons: their images aren't part of the control plane, and nothing would run them."""
IGNORED = (
    *("ImagePull", "SystemVerification", "Swap", "Mem", "NumCPU"),
    *("FileContent--proc-sys-net-ipv4-ip_forward", "Service-Kubelet", "FileExisting-crictl"),
)
"""kubeadm's names of the preflight checks that a simulated host can't pass."""
LIMIT = 400
ADDRESS = "198.18.7.1"
FAKE_KUBELET = r"""#!/bin/sh
# A fake kubelet: it runs the commands of static pods as plain processes.
[ "${1-}" = --version ] && { echo "Kubernetes vVERSION"; exit 0; }
[ -f /var/lib/kubelet/config.yaml ] || exit 1
pids=
trap 'kill $pids; for pid in $pids; do wait "$pid"; done; exit 0' TERM
perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1);
    bind(S, sockaddr_in(10248, inet_aton("127.0.0.1"))) or die; listen(S, 8);
    while (accept(C, S)) { sysread(C, $_, 4096); print C "HTTP/1.0 200 OK\r\n\r\nok"; close C }' &
pids=$!
mkdir -p /var/log/static-pods
for pod in /etc/kubernetes/manifests/*.yaml; do
    name=${pod##*/}
    sed -n '/^  - command:$/,/^    image: /s/^    - //p' "$pod" >/run/static-pod
    set --
    while IFS= read -r word; do set -- "$@" "$word"; done </run/static-pod
    program=/opt/control-plane/$1
    shift
    "$program" "$@" >"/var/log/static-pods/$name.log" 2>&1 &
    pids="$pids $!"
done
wait
""".replace("VERSION", KUBELET)
UNIT = "[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n"


class Isolated:
    """Simulated host whose commands run in a separate network namespace with one IP address."""

    def __init__(self, host: Running) -> None:
        self.host = host
        # This is the process `unshare`; its only child is the first process of the host.
        outside = host.root.parts[2]
        (pid,) = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
        enter = ["nsenter", "-t", pid, "-m", "-p", "-u", "-i", "--"]
        self._holder = subprocess.Popen([*enter, "unshare", "--net", "sleep", "infinity"])
        self.pid = self._child()
        self._enter = ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-n", "--"]
        self.run(
            "ip link set lo up; ip link add node0 type veth peer name node1; "
            f"ip addr add {ADDRESS}/24 dev node0; ip link set node0 up; ip link set node1 up; "
            "ip route add default dev node0"
        )

    def _child(self) -> int:
        """Return the pid of the process that owns the host's network namespace."""
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        while True:
            for pid in children.read_text().split():
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    return int(pid)
            time.sleep(0.05)

    def run(self, command: str, stdin: str = "") -> Result:
        self.host.copy_steps(stdin)
        paths = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        done = run_program(
            [*self._enter, "env", "-i", paths, "HOME=/root", "sh", "-c", f"cd /root && {command}"],
            input=stdin,
            timeout=LIMIT,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def apply(self, script: str) -> Result:
        return self.run("sh -s -- apply", script)

    def close(self) -> None:
        self.run("systemctl stop kubelet")
        self._holder.kill()
        self._holder.wait()


@pytest.fixture
def node(cluster: str, namespaces: None) -> Iterator[Isolated]:
    """Return a host with the real kubeadm and the programs of the control plane."""
    host = software.start(cluster, "debian")
    programs = {name: tool.path for name, tool in toolchain.ensure(*PROGRAMS).items()}
    for name, path in programs.items():
        copy(path, host.root / "opt/control-plane" / name)
    copy(build.build_node()["kubeadm"], host.root / "usr/bin/kubeadm")
    host.write("/usr/bin/kubelet", FAKE_KUBELET)
    host.write("/usr/bin/kubectl", "#!/bin/sh\n")
    host.write("/usr/lib/systemd/system/kubelet.service", UNIT)
    host.run("chmod 755 /usr/bin/kubelet /usr/bin/kubectl; systemctl enable kubelet")
    isolated = Isolated(host)
    try:
        yield isolated
    finally:
        isolated.close()


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    shutil.copy2(source, target)
    target.chmod(0o755)


def initialize(**init: Any) -> Cluster:
    return declared(
        version=KUBELET,
        endpoint=f"{ADDRESS}:6443",
        advertiseAddress=ADDRESS,
        skipPhases=list(SKIPPED),
        nodeRegistration={"ignorePreflightErrors": list(IGNORED)},
        clusterConfiguration={"apiServer": {"certSANs": ["127.0.0.1"]}},
        **init,
    )


class Kubelet(threading.Thread):
    """Thread that creates the fake kubelet's Node as soon as the API server accepts it."""

    def __init__(self, node: Isolated, folder: Path) -> None:
        super().__init__(daemon=True)
        self._node, self.done = node, threading.Event()
        self.relay = Relay(End(0, free := free_port()), End(node.pid, 6443))
        self._server, self._folder = f"https://127.0.0.1:{free}", folder

    @property
    def access(self) -> api.Access:
        """Return an API connection with the administrator's credentials that kubeadm has created.

        Raises:
            OSError: kubeadm has not written the credentials yet.
        """
        kubernetes = self._node.host.root / "etc/kubernetes"
        user = yaml.safe_load((kubernetes / "admin.conf").read_text())["users"][0]["user"]
        files = [self._folder / name for name in ("client-certificate-data", "client-key-data")]
        for file in files:
            file.write_bytes(base64.b64decode(user[file.name]))
        return api.Access(self._server, kubernetes / "pki/ca.crt", *files)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        async def ask() -> Any:
            async with api.connect(self.access) as client:
                return await client.request(method, path, body)

        return asyncio.run(ask())

    def run(self) -> None:
        labels = {"kubernetes.io/hostname": "gpu-1"}
        body = {"metadata": {"name": "gpu-1", "labels": labels}}
        while not self.done.wait(1):
            with contextlib.suppress(OSError, RuntimeError, TypeError, aiohttp.ClientError):
                self.request("POST", "/api/v1/nodes", body)
                return


def test_the_real_kubeadm_makes_what_is_declared_and_unmakes_it(
    node: Isolated, tmp_path: Path
) -> None:
    before = software.lasting(node.host)
    cluster = initialize()
    script = init_script(desired_host(cluster, 0))
    kubelet = Kubelet(node, tmp_path)
    kubelet.start()
    try:
        first = node.apply(script)
        assert (first.status, first.errors) == (0, ""), first
    finally:
        kubelet.done.set()
    taints = kubelet.request("GET", "/api/v1/nodes/gpu-1")["spec"]["taints"]
    assert "node-role.kubernetes.io/control-plane" in {taint["key"] for taint in taints}
    assert node.apply(script).output == "changed=0\n"
    access = access_script(desired_host(cluster), ())
    said = [node.apply(access) for _ in range(2)]
    assert [(done.status, done.errors) for done in said] == [(0, "")] * 2
    assert said[0].output == said[1].output
    found = ACCESS.read(said[0].output, "gpu-1", f"{ADDRESS}:6443")
    check_key(found.administrator)
    token = found.token
    secrets = kubelet.request("GET", "/api/v1/namespaces/kube-system/secrets")["items"]
    assert f"bootstrap-token-{token[:6]}" in {secret["metadata"]["name"] for secret in secrets}
    kubelet.relay.close()
    undone = node.run("sh -s -- undo", script)
    assert (undone.status, undone.errors) == (0, ""), undone
    left = differences(before, software.lasting(node.host))
    assert {path for path in left if path != COPIED} == set()
