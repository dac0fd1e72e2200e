"""Run a real Kubernetes API server without nodes, with etcd and optionally controller manager."""

from __future__ import annotations

import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.control_plane import on_loopback
from gpu_cluster_lab.simulator.kubectl import write_kubectl
from gpu_cluster_lab.toolchain.pins import KUBERNETES
from lab.benchmarks.measure import BenchmarkError

WAIT = 90
"""Seconds until all programs must run; after that, the attempt is abandoned."""
TRIES = 3
"""Number of attempts.

A port that was free may be taken before its program starts; the next attempt uses other ports.
"""


@dataclass(frozen=True)
class ApiServer:
    """Running Kubernetes API server.

    Attributes:
        client: HTTP client with administrator rights.
        kubeconfig: Path of a kubeconfig with administrator rights; it exists while the server runs.
    """

    client: httpx.Client
    kubeconfig: Path


@contextmanager
def running(name: str, *, controllers: bool = False, gates: str = "") -> Iterator[ApiServer]:
    """Start a new API server and yield it; stop it at the end.

    Args:
        name: Name of the cluster; the process id is added so that it is unique on this machine.
        controllers: True to run the controller manager, which type-checks admission policies.
        gates: Feature gates of Kubernetes, such as `Name=true`.

    Raises:
        BenchmarkError: The server did not start; the message ends with the last log lines of etcd
            and the API server.
    """
    faults = []
    for number in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="gpu-cluster-api-") as temporary:
            kwokctl = _Kwokctl(Path(temporary), f"{name}-{os.getpid()}-{number}")
            try:
                fault = kwokctl.create(controllers=controllers, gates=gates)
                if fault is None:
                    with _open_client(kwokctl.kubeconfig) as client:
                        make_namespace(client, "default")
                        yield ApiServer(client, kwokctl.kubeconfig)
                    return
                faults.append(fault)
            finally:
                kwokctl.delete()
    raise BenchmarkError("\n".join(faults))


@dataclass(frozen=True)
class _Kwokctl:
    """kwokctl for one cluster whose files are all in one folder."""

    folder: Path
    name: str

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def create(self, *, controllers: bool, gates: str) -> str | None:
        """Start the cluster's programs.

        Returns an error message with the last lines of the programs' logs, or None on success.
        """
        names = ("etcd", "kube-apiserver", "kube-controller-manager")
        tools = toolchain.ensure(*names, "kwok")
        write_kubectl(self.folder / "programs")
        config = self.folder / "config.yaml"
        config.write_text(yaml.safe_dump(on_loopback({"kubeAuthorization": True})))
        arguments = [f"--config={config}", "--runtime=binary", f"--wait={WAIT}s"]
        arguments += [f"--{tool}-binary={tools[tool].path}" for tool in names]
        arguments += [f"--kwok-controller-binary={tools['kwok'].path}", "--disable-kube-scheduler"]
        if gates:
            arguments.append(f"--kube-feature-gates={gates}")
        if not controllers:
            arguments.append("--disable-kube-controller-manager")
        try:
            done = self._run("create", *arguments)
        except subprocess.TimeoutExpired:
            return f"kwokctl create cluster: more than {WAIT} s{self._log_ends()}"
        if done.returncode:
            return f"kwokctl create cluster: {done.stdout}{done.stderr}{self._log_ends()}"
        return None

    def delete(self) -> None:
        """Stop the cluster's programs."""
        self._run("delete")

    def _run(self, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        programs = self.folder / "programs"
        environment = {
            **os.environ,
            "KWOK_WORKDIR": str(self.folder),
            "KWOK_KUBE_VERSION": f"v{KUBERNETES}",
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        kwokctl = toolchain.ensure("kwokctl")["kwokctl"].path
        common = [f"--name={self.name}", f"--kubeconfig={self.kubeconfig}"]
        return subprocess.run(
            [str(kwokctl), action, "cluster", *common, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )

    def _log_ends(self) -> str:
        logs = sorted(self.folder.glob("clusters/*/logs/*.log"))
        return "".join(f"\n{path.name}: {path.read_text()[-1000:]}" for path in logs)


def make_namespace(client: httpx.Client, name: str, labels: dict[str, str] | None = None) -> None:
    """Create a namespace with its default service account, which pods need."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if labels:
        space = {**space, "metadata": {"name": name, "labels": labels}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    for path, manifest in (
        ("/api/v1/namespaces", space),
        (f"/api/v1/namespaces/{name}/serviceaccounts", account),
    ):
        answer = client.post(path, json=manifest)
        if answer.status_code not in (201, 409):
            raise BenchmarkError(f"POST {path}: {answer.status_code} {answer.text}")


def await_true(what: str, question: Callable[[], bool], seconds: float = 240) -> None:
    """Call `question` repeatedly until it returns True.

    Raises:
        BenchmarkError: `question` did not return True within `seconds`.
    """
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise BenchmarkError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def _open_client(kubeconfig: Path) -> httpx.Client:
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    context = ssl.create_default_context()
    context.check_hostname = False
    # The API server's certificate isn't verified, because the benchmark itself started the server
    # on loopback.
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    return httpx.Client(base_url=cluster["server"], verify=context, timeout=60, trust_env=False)
