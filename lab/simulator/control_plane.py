"""The control plane: etcd, API server, controller manager, scheduler and kwok, by kwokctl.

Real programs as plain processes on loopback (kwokctl's binary runtime). All of its files lie below
the cluster's folder in the cache; the user's ``~/.kube/config`` and ``~/.kwok`` are never used.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.simulator import etcd, kubeconfig, kubelets, logs, marks, processes, stages
from lab.simulator.api import Access
from lab.simulator.kubectl import write_kubectl
from lab.simulator.ports import free_ports
from toolchain import Tool, cache_dir, ensure

CREATE_SECONDS = 90
READY_SECONDS = 30
#: Tries to start an existing cluster before it is made anew.
RESTARTS = 3
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok-controller",
)
TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kwokctl")

#: Variable that makes the API server of a cluster that is made anew log all requests.
AUDIT = "GPU_CLUSTER_AUDIT"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
#: Requests per second of the controllers: their defaults (20 and 50) would stretch what 1,000 nodes
#: need over minutes. Large clusters raise them so (kube-controller-manager, --kube-api-qps).
#: In the file, not by --extra-args: kwokctl 0.8.0 panics at the second one of a second component.
RATES = [{"key": "kube-api-qps", "value": "500"}, {"key": "kube-api-burst", "value": "1000"}]
#: kwokctl alone takes the highest free ports: two clusters that start at once take the same.
PORTS = (
    "etcdPort",
    "etcdPeerPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)
#: Without leases: a kwok that is started again would not act on nodes until those of the killed one
#: have run out. In their place nodes report each 10 minutes (`stages`), and an hour is the limit.
OPTIONS = {
    "bindAddress": "127.0.0.1",
    "kubeApiserverCertSANs": [kubelets.SERVICE],
    "kubeControllerManagerNodeMonitorGracePeriodMilliseconds": 720_000,  # kwokctl: times 5
}
PATCHES = [
    {"name": "kube-controller-manager", "extraArgs": RATES},
    {"name": "kube-scheduler", "extraArgs": RATES},
    {
        "name": "kwok-controller",
        "extraArgs": [
            {"key": "node-lease-duration-seconds", "value": "0"},
            # kwokctl's own flags make every node its own: a real kubelet's would become a fake one.
            {"key": "manage-all-nodes", "value": "false"},
            {"key": "manage-nodes-with-annotation-selector", "value": f"{marks.FAKE_NODE}=fake"},
        ],
    },
]


def with_ports(options: Mapping[str, object]) -> dict[str, Any]:
    """A configuration of kwokctl: its options, and a free port for each component."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {**options, **ports},
    }


class SimulatorError(RuntimeError):
    """The embedded cluster cannot do what is asked; the message names what, why and the cure."""


@dataclass(frozen=True)
class ControlPlane:
    """The control plane of one embedded cluster. ``name``: the cluster's."""

    name: str

    @property
    def directory(self) -> Path:
        """The cluster's folder in the cache."""
        return cache_dir() / "embedded" / self.name

    @property
    def kubeconfig(self) -> Path:
        """For users: one context, certificates inside."""
        return self.directory / "kubeconfig"

    @property
    def context(self) -> str:
        """Name of the context in `kubeconfig`."""
        return f"gpu-cluster-{self.name}"

    @property
    def logs(self) -> Path:
        """Folder of the simulated container logs."""
        return self.directory / "container-logs"

    @property
    def controller_pid(self) -> Path:
        """The controller's pid file, written by who starts it."""
        return self.directory / "controller.pid"

    @property
    def controller_ready(self) -> Path:
        """The pid again, written by the controller when it has seen all nodes."""
        return self.directory / "controller.ready"

    @property
    def controller_log(self) -> Path:
        """What the controller does and what goes wrong."""
        return self.directory / "controller.log"

    @property
    def work(self) -> Path:
        """kwokctl's own folder."""
        return self.directory / "kwok"

    @property
    def cluster(self) -> Path:
        """kwokctl's folder of this cluster."""
        return self.work / "clusters" / self.name

    def access(self) -> Access:
        """How to reach the API server.

        :raises SimulatorError: there is no cluster yet.
        """
        pki = self.cluster / "pki"
        try:
            document = yaml.safe_load((self.cluster / "kubeconfig.yaml").read_text())
        except OSError as error:
            raise SimulatorError(
                f"embedded cluster {self.name}: {error}; wanted: a cluster that was started; "
                f"cure: python -m lab.simulator up --name {self.name}"
            ) from error
        server = document["clusters"][0]["cluster"]["server"]
        return Access(server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")

    def pids(self) -> dict[str, int]:
        """Pids of the components that run."""
        process_ids = {}
        for component in COMPONENTS:
            pid = processes.pid_in(self.cluster / "pids" / f"{component}.pid")
            if pid is not None and processes.is_running(pid, str(self.cluster)):
                process_ids[component] = pid
        return process_ids

    def is_ready(self) -> bool:
        """Whether all components run and the API server answers."""
        return len(self.pids()) == len(COMPONENTS) and self._answers()

    def _answers(self) -> bool:
        try:
            access = self.access()
            url = f"{access.server}/readyz"
            context = access.context()
            with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310
                return bool(answer.read() == b"ok")
        except (OSError, ssl.SSLError, SimulatorError):
            return False

    def start(self) -> bool:
        """Start what does not run; true where something was started.

        :raises SimulatorError: with the last lines of kwokctl's output.
        """
        if self.is_ready():
            return False
        tools = ensure(*TOOLS)
        logs.write(self.logs)
        write_kubectl(self.directory / "bin")
        if not (self.cluster.exists() and self._restart(tools)):
            self._create_anew(tools)
        self.write_kubeconfig()
        return True

    def _create_anew(self, tools: dict[str, Tool]) -> None:
        """Tries once more with other ports: one may be taken since it was found free."""
        for last in (False, True):
            self.stop()
            logs.write(self.logs)
            write_kubectl(self.directory / "bin")
            try:
                return self._create(tools)
            except SimulatorError:
                if last:
                    raise

    def _restart(self, tools: dict[str, Tool]) -> bool:
        """Start what does not run of a cluster that was made before."""
        for _ in range(RESTARTS):
            running = self.pids()
            for component in COMPONENTS:
                if component not in running:  # kwokctl would take a zombie for a running process
                    (self.cluster / "pids" / f"{component}.pid").unlink(missing_ok=True)
            if self._kwokctl(tools, "start", "cluster").returncode:
                return False
            if self._await_ready():
                return True
        return False

    def _await_ready(self) -> bool:
        """Wait until the API server is ready; false at once where a component has ended."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and len(self.pids()) == len(COMPONENTS):
            if self._answers():
                return True
            time.sleep(0.1)
        return False

    def _create(self, tools: dict[str, Tool]) -> None:
        settings = with_ports({**OPTIONS, **self._audit()})
        pki = self.cluster / "pki"
        secured = [*etcd.patches(settings["options"], pki), *kubelets.patches(pki)]
        settings["componentsPatches"] = [*PATCHES, *secured]
        documents = [settings, *stages.stages(), *logs.cluster_logs(self.logs)]
        config = self.directory / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        arguments = ["--runtime", "binary", "--kubeconfig", "", "--enable-crds", "Logs"]
        for tool in TOOLS[:4]:
            arguments += [f"--{tool}-binary", str(tools[tool].path)]
        arguments += ["--kwok-controller-binary", str(tools["kwok"].path)]
        arguments += ["--config", str(config), "--wait", f"{CREATE_SECONDS}s"]
        done = self._kwokctl(tools, "create", "cluster", *arguments)
        if done.returncode or not (self._await_ready() or self._restart(tools)):
            tail = (done.stdout + done.stderr)[:2000]
            raise SimulatorError(
                f"embedded cluster {self.name}: kwokctl ended with {done.returncode} and running "
                f"are {', '.join(self.pids()) or 'no components'}; "
                f"wanted: {', '.join(COMPONENTS)}; cure: see {self.cluster / 'logs'}\n{tail}"
            )

    def _audit(self) -> dict[str, str]:
        """Options that make the API server log its requests, where `AUDIT` asks for it."""
        if not os.environ.get(AUDIT):
            return {}
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        return {"kubeAuditPolicy": str(policy)}

    @property
    def audit_log(self) -> Path:
        """Requests to the API server, a JSON object a line; only where `AUDIT` asked for it."""
        return self.cluster / "logs" / "audit.log"

    def _kwokctl(self, tools: dict[str, Tool], *arguments: str) -> subprocess.CompletedProcess[str]:
        version = tools["kube-apiserver"].version.removeprefix("v")
        environment = {
            **os.environ,
            "KWOK_WORKDIR": str(self.work),
            "KWOK_KUBE_VERSION": f"v{version}",
            "PATH": f"{self.directory / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        environment.pop("KUBECONFIG", None)
        command = [str(tools["kwokctl"].path), *arguments, "--name", self.name]
        try:
            return subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=CREATE_SECONDS + 30,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SimulatorError(
                f"embedded cluster {self.name}: kwokctl {' '.join(arguments[:2])} took more than "
                f"{error.timeout:.0f} s; cure: see {self.cluster / 'logs'}, then python -m "
                f"lab.simulator down --name {self.name}"
            ) from error

    def write_kubeconfig(self) -> None:
        """Write `kubeconfig`, readable by its owner only."""
        text = kubeconfig.text(self.access(), self.context)
        draft = self.kubeconfig.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.replace(self.kubeconfig)

    def stop(self) -> None:
        """End all components and remove what `start` wrote."""
        pids = self.pids()
        for component in reversed(COMPONENTS):  # etcd last: the others write to it as they end
            processes.stop(pids.get(component), str(self.cluster))
        for path in (self.work, self.logs, self.directory / "bin"):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.kubeconfig, self.directory / "kwok.yaml"):
            path.unlink(missing_ok=True)
