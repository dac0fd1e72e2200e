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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.simulator import etcd, kubeconfig, kubelets, logs, marks, processes, proxies, stages
from lab.simulator.api import Access
from lab.simulator.kubectl import write_kubectl
from lab.simulator.last_words import last_line
from lab.simulator.ports import free_ports
from toolchain import Tool, cache_dir, ensure
from toolchain.cache import write_atomically

CREATE_SECONDS = 90
READY_SECONDS = 30
#: Names the folder of clusters that earlier versions of this program made.
EARLIER = "KWOK_WORKDIR"
#: The program that follows the nodes, started and ended by `embedded`.
CONTROLLER = "lab.simulator.controller"
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
#: Whether the definitions that kwokctl makes last are there.
DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/logs.kwok.x-k8s.io"
#: Without these two nothing else can work; the others are started again when kwokctl has ended.
NEEDED = COMPONENTS[:2]
#: The API server takes the address that it advertises from the default route, and ends where a
#: machine has none (kubernetes v1.34.4, options.go, DefaultAdvertiseAddress). It listens on
#: loopback alone, and objects may not name a loopback address as an endpoint: none is written.
ADVERTISED = [
    {"key": "advertise-address", "value": "127.0.0.1"},
    {"key": "endpoint-reconciler-type", "value": "none"},
]
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
    {"name": "kube-apiserver", "extraArgs": ADVERTISED},
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


class ComponentError(SimulatorError):
    """A component ended while others waited for it; the message has its last line."""


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
    def made(self) -> Path:
        """The mark that this cluster was made whole: written last, removed first."""
        return self.directory / "made"

    @property
    def output(self) -> Path:
        """What kwokctl printed last."""
        return self.directory / "kwokctl.log"

    @property
    def work(self) -> Path:
        """kwokctl's own folder, below what it takes for the home folder.

        Its variable KWOK_WORKDIR would name any folder, but none with a blank in its path
        (kwok v0.8.0, pkg/utils/envs).
        """
        return self.directory / ".kwok"

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
                f"cure: make start STACK={self.name}"
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
        """Whether the cluster was made whole, all of it runs and the API server answers."""
        return self.made.exists() and len(self.pids()) == len(COMPONENTS) and self._answers()

    def ended(self, *components: str) -> str:
        """Return which of these components has ended, with its last line; "" if none has.

        A component whose pid nobody wrote down counts as one that isn't started yet.
        """
        running = self.pids()
        for component in components or COMPONENTS:
            written = processes.pid_in(self.cluster / "pids" / f"{component}.pid")
            if written is not None and component not in running:
                return f"{component} has ended{self.last_line(component)}"
        return ""

    def last_line(self, component: str) -> str:
        """Return what a component's log ends with, as the end of a sentence; "" without a log."""
        return last_line(self.cluster / "logs" / f"{component}.log")

    def _answers(self, path: str = "/readyz") -> bool:
        try:
            access = self.access()
            opener = proxies.direct(access.context())
            with opener.open(access.server + path, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, ssl.SSLError, SimulatorError):
            return False

    def start(self) -> bool:
        """Start what does not run; true where something was started.

        :raises SimulatorError: with the last lines of kwokctl's output.
        """
        ready = self.is_ready()
        if not ready:
            tools = ensure(*TOOLS)
            logs.write(self.logs)
            write_kubectl(self.directory / "bin")
            if not (self.made.exists() and self._restart(tools)):
                self._create_anew(tools)
        if not (ready and self.kubeconfig.exists()):
            self.write_kubeconfig()
        if not self.made.exists():
            write_atomically(self.made, "")
        return not ready

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
            # Of a killed run: processes whose ids nobody wrote down, and kwokctl itself.
            processes.stop_marked(self.directory, {*running.values(), *self._controller()})
            try:
                if self._kwokctl(tools, "start", "cluster"):
                    return False
            except ComponentError:
                continue
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
        status = self._kwokctl(tools, "create", "cluster", *arguments, "--config", str(config))
        if status or not (self._await_ready() or self._restart(tools)):
            reason = self.ended() or f"kwokctl ended with status {status}{self._said()}"
        elif not self._answers(DEFINED):
            reason = f"kwokctl made no definitions{self._said()}"
        else:
            return
        raise self.failure(reason)

    def failure(self, reason: str) -> SimulatorError:
        """Return the error of a cluster that isn't up, with its reason and what to do."""
        return SimulatorError(
            f"embedded cluster {self.name}: {reason}; wanted: a control plane that answers; cure: "
            f"see to this cause, then run again; all logs: {self.cluster / 'logs'}"
        )

    def _said(self) -> str:
        return last_line(self.output)

    def _controller(self) -> set[int]:
        """Processes of the cluster's controller, which `embedded` starts and ends."""
        return {
            pid for pid in processes.marked(self.directory) if processes.is_running(pid, CONTROLLER)
        }

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

    def _kwokctl(self, tools: dict[str, Tool], *arguments: str) -> int:
        """Run kwokctl; its exit status.

        Raises:
            ComponentError: a component without which it would wait for nothing has ended.
            SimulatorError: it took too long.
        """
        version = tools["kube-apiserver"].version.removeprefix("v")
        environment = {
            **proxies.without(os.environ),
            processes.MARK: str(self.directory),
            "HOME": str(self.directory),
            "KWOK_KUBE_VERSION": f"v{version}",
            "PATH": f"{self.directory / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        for name in ("KUBECONFIG", EARLIER):
            environment.pop(name, None)
        command = [str(tools["kwokctl"].path), *arguments, "--name", self.name]
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            return self._watch(process)
        finally:
            process.kill()
            process.wait()

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + CREATE_SECONDS + READY_SECONDS
        while (status := process.poll()) is None:
            if reason := self.ended(*NEEDED):
                raise ComponentError(str(self.failure(reason)))
            if time.monotonic() > deadline:
                reason = "kube-apiserver does not answer" + self.last_line("kube-apiserver")
                raise self.failure(f"{reason} (after {CREATE_SECONDS + READY_SECONDS} s)")
            time.sleep(0.1)
        return status

    def write_kubeconfig(self) -> None:
        """Write `kubeconfig`, readable by its owner only."""
        text = kubeconfig.text(self.access(), self.context)
        self._draft.unlink(missing_ok=True)
        self._draft.touch(mode=0o600)
        self._draft.write_text(text)
        self._draft.replace(self.kubeconfig)

    @property
    def _draft(self) -> Path:
        return self.kubeconfig.with_suffix(".new")

    def stop(self) -> None:
        """End all components and remove what `start` wrote."""
        self.made.unlink(missing_ok=True)
        processes.stop(processes.pid_in(self.controller_pid), CONTROLLER)
        pids = self.pids()
        for component in reversed(COMPONENTS):  # etcd last: the others write to it as they end
            processes.stop(pids.get(component), str(self.cluster))
        processes.stop_marked(self.directory)
        earlier = self.directory / "kwok"
        processes.stop_marked(earlier, variable=EARLIER)
        for path in (self.work, self.logs, self.directory / "bin", earlier):
            shutil.rmtree(path, ignore_errors=True)
        drafts = self.directory.glob(f".{self.made.name}.*")  # of a write that was killed
        for path in (
            self.kubeconfig,
            self._draft,
            self.directory / "kwok.yaml",
            self.output,
            *drafts,
        ):
            path.unlink(missing_ok=True)
