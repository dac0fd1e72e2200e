"""Control plane of an embedded cluster: etcd, API server, controller manager, scheduler and kwok.

kwokctl starts the real programs as plain processes on loopback (its binary runtime). All files are
in the cluster's folder in the cache; the user's `~/.kube/config` and `~/.kwok` are never used.
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

from gpu_cluster.machine import processes
from gpu_cluster.machine.folders import cache_dir, make_private
from gpu_cluster.machine.tool import Tool
from gpu_cluster_lab.simulator import etcd, kubeconfig, kubelets, marks, proxies, stages
from gpu_cluster_lab.simulator.api import Access
from gpu_cluster_lab.simulator.kubectl import write_kubectl
from gpu_cluster_lab.simulator.last_words import last_line
from gpu_cluster_lab.simulator.ports import free_ports
from gpu_cluster_lab.toolchain import ensure
from gpu_cluster_lab.toolchain.cache import write_atomically

CREATE_SECONDS = 90
READY_SECONDS = 30
#: Environment variable by which earlier versions of this program marked the processes of their
#: clusters.
EARLIER = "KWOK_WORKDIR"
#: Module of the process that simulates node components;
#: `gpu_cluster_lab.simulator.embedded` starts and stops this process.
CONTROLLER = "gpu_cluster_lab.simulator.controller"
#: Number of attempts to restart an existing cluster before the cluster is recreated.
RESTARTS = 3
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok-controller",
)
TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kwokctl")

#: Environment variable that enables the API server's audit log when a cluster is created.
AUDIT = "GPU_CLUSTER_AUDIT"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
#: API request rates of the controller manager and the scheduler, in requests per second.
#: With the defaults (20 and 50), setting up 1,000 nodes would take minutes. Large clusters raise
#: the same flags (kube-controller-manager, --kube-api-qps). The flags are set in the configuration
#: file because kwokctl 0.8.0 panics if --extra-args is given for a second component.
RATES: list[dict[str, object]] = [
    {"key": "kube-api-qps", "value": "500"},
    {"key": "kube-api-burst", "value": "1000"},
]
#: Flags of the controller manager and the scheduler. Leader election is off, because the cluster
#: has one of each, and a program that can't renew its lease for 10 s ends. On a busy machine that
#: would happen (k8s.io/component-base, config/v1alpha1/defaults.go).
ALONE: list[dict[str, object]] = [
    *RATES,
    {"key": "leader-elect", "value": "false"},
    # kwokctl also shows the metrics without a login (kwok v0.8.0, pkg/kwokctl/components).
    {
        "key": "authorization-always-allow-paths",
        "value": "/healthz,/readyz,/livez",
        "override": True,
    },
]
#: etcd and the API server, which all other components need. The other components are restarted
#: after kwokctl has ended.
NEEDED = COMPONENTS[:2]
#: API server flags for a machine without a default route.
#: The API server derives its advertised address from the default route and exits if there is no
#: default route (kubernetes v1.34.4, options.go, DefaultAdvertiseAddress). The server listens on
#: loopback only, and an Endpoints object must not contain a loopback address, so the endpoint
#: reconciler is disabled.
ADVERTISED = [
    {"key": "advertise-address", "value": "127.0.0.1"},
    {"key": "endpoint-reconciler-type", "value": "none"},
]
#: Settings of kwokctl that get a randomly chosen port. By default kwokctl takes the highest free
#: ports, so two clusters started at the same time would get the same ports.
PORTS = (
    "etcdPort",
    "etcdPeerPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)
#: Options of kwokctl. Node leases are disabled because a restarted kwok would not manage nodes
#: until the leases of the killed kwok expire. Instead, nodes send a status update every 10 minutes
#: (see `stages`), and the grace period of the node monitor is one hour.
OPTIONS = {
    "kubeApiserverCertSANs": [kubelets.SERVICE],
    # kwokctl multiplies this value by 5, which gives one hour.
    "kubeControllerManagerNodeMonitorGracePeriodMilliseconds": 720_000,
}
PATCHES: list[dict[str, object]] = [
    {"name": "kube-controller-manager", "extraArgs": ALONE},
    {"name": "kube-scheduler", "extraArgs": ALONE},
    {
        "name": "kwok-controller",
        "extraArgs": [
            {"key": "node-lease-duration-seconds", "value": "0"},
            # By default kwokctl lets kwok manage all nodes, which would turn the node of a real
            # kubelet into a simulated node.
            {"key": "manage-all-nodes", "value": "false"},
            {"key": "manage-nodes-with-annotation-selector", "value": f"{marks.FAKE_NODE}=fake"},
            # kwok's own server has no login: every user of the machine could read logs and profiles
            # there. Without address and port kwok starts none (kwok v0.8.0, pkg/kwok/cmd/root.go,
            # startServer). The simulator's controller serves the logs of nodes (`kubelet`).
            {"key": "server-address", "value": ""},
            {"key": "node-port", "value": "0"},
        ],
    },
]


def on_loopback(options: Mapping[str, object], *patches: Mapping[str, object]) -> dict[str, Any]:
    """Return kwokctl's configuration of a cluster on loopback, with a free port per component.

    Args:
        options: Further options of kwokctl.
        patches: Further arguments of the components.
    """
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {"bindAddress": "127.0.0.1", **options, **ports},
        "componentsPatches": [{"name": "kube-apiserver", "extraArgs": ADVERTISED}, *patches],
    }


class SimulatorError(RuntimeError):
    """Error: an operation on the embedded cluster failed.

    The message has the cause and the remedy.
    """


class ComponentError(SimulatorError):
    """A control plane component ended during start-up; the message has its last log line."""


@dataclass(frozen=True)
class ControlPlane:
    """Control plane of one embedded cluster.

    Attributes:
        name: Name of the cluster.
    """

    name: str

    @property
    def directory(self) -> Path:
        """Return the cluster's folder in the cache."""
        return cache_dir() / "embedded" / self.name

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the kubeconfig for users of the cluster.

        It has one context and embedded certificates.
        """
        return self.directory / "kubeconfig"

    @property
    def context(self) -> str:
        """Return the name of the context in the kubeconfig."""
        return f"gpu-cluster-{self.name}"

    @property
    def logs(self) -> Path:
        """Return the folder with the logs of simulated containers."""
        return self.directory / "container-logs"

    @property
    def _log_port(self) -> Path:
        return self.directory / "logs.port"

    @property
    def log_port(self) -> int:
        """Return the port at which the simulated nodes' kubelet serves logs."""
        return int(self._log_port.read_text())

    @property
    def controller_pid(self) -> Path:
        """Return the path of the pid file of the simulator's controller process.

        The process that starts the controller writes this file.
        """
        return self.directory / "controller.pid"

    @property
    def controller_ready(self) -> Path:
        """Return the path of the file with the simulator controller's pid.

        The controller writes this file when it is ready.
        """
        return self.directory / "controller.ready"

    @property
    def controller_log(self) -> Path:
        """Return the path of the log of the simulator's controller process."""
        return self.directory / "controller.log"

    @property
    def made(self) -> Path:
        """Return the path of the file that marks the cluster as completely created.

        The file is written as the last step of creation and removed as the first step of deletion.
        """
        return self.directory / "made"

    @property
    def output(self) -> Path:
        """Return the path of the file with the output of the last kwokctl command."""
        return self.directory / "kwokctl.log"

    @property
    def work(self) -> Path:
        """Return kwokctl's working folder: a subfolder of the HOME folder that kwokctl gets.

        The variable KWOK_WORKDIR could name any other folder, but not a path with a space (kwok
        v0.8.0, pkg/utils/envs).
        """
        return self.directory / ".kwok"

    @property
    def cluster(self) -> Path:
        """Return the folder in which kwokctl stores this cluster."""
        return self.work / "clusters" / self.name

    def access(self) -> Access:
        """Return the API server's URL and the client certificate to connect with.

        Raises:
            SimulatorError: The cluster doesn't exist yet.
        """
        pki = self.cluster / "pki"
        try:
            document = yaml.safe_load((self.cluster / "kubeconfig.yaml").read_text())
        except OSError as error:
            raise SimulatorError(
                f"embedded cluster {self.name}: {error}; wanted: a cluster that was started; "
                f"cure: gpu-cluster start --stack {self.name}"
            ) from error
        server = document["clusters"][0]["cluster"]["server"]
        return Access(server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")

    def pids(self) -> dict[str, int]:
        """Return the process ids of the running components, by component name."""
        process_ids = {}
        for component in COMPONENTS:
            pid = processes.pid_in(self.cluster / "pids" / f"{component}.pid")
            if pid is not None and processes.is_running(pid, str(self.cluster)):
                process_ids[component] = pid
        return process_ids

    def is_ready(self) -> bool:
        """Check that the cluster is complete and running, and that the API server responds."""
        return self.made.exists() and len(self.pids()) == len(COMPONENTS) and self._answers()

    def ended(self, *components: str) -> str:
        """Return the name of a component that has ended, with its last log line; "" if all run.

        A component without a pid file doesn't count: it has not been started yet.
        """
        running = self.pids()
        for component in components or COMPONENTS:
            written = processes.pid_in(self.cluster / "pids" / f"{component}.pid")
            if written is not None and component not in running:
                return f"{component} has ended{self.last_line(component)}"
        return ""

    def last_line(self, component: str) -> str:
        """Return the last line of a component's log in a form that ends an error message.

        Return "" if there is no log.
        """
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
        """Start all components that don't run; return True if any component was started.

        Raises:
            SimulatorError: A component failed to start; the message has the last lines of kwokctl's
                output.
        """
        ready = self.is_ready()
        if not ready:
            tools = ensure(*TOOLS)
            make_private(self.directory)
            write_kubectl(self.directory / "bin")
            if not (self.made.exists() and self._restart(tools)):
                self._create_anew(tools)
        if not (ready and self.kubeconfig.exists()):
            self.write_kubeconfig()
        if not self.made.exists():
            write_atomically(self.made, "")
        return not ready

    def _create_anew(self, tools: dict[str, Tool]) -> None:
        """Create the cluster; if this fails, try once more with other ports.

        The ports were chosen because they were free, but another program may have taken one
        meanwhile.
        """
        for last in (False, True):
            self.stop()
            make_private(self.directory)
            write_kubectl(self.directory / "bin")
            try:
                return self._create(tools)
            except SimulatorError:
                if last:
                    raise

    def _restart(self, tools: dict[str, Tool]) -> bool:
        """Start the stopped components of an existing cluster.

        Returns:
            False if the components don't become ready.
        """
        for _ in range(RESTARTS):
            running = self.pids()
            for component in COMPONENTS:
                # kwokctl would mistake a zombie process for a running component.
                if component not in running:
                    (self.cluster / "pids" / f"{component}.pid").unlink(missing_ok=True)
            # A run that was killed can leave processes without a pid file, and a kwokctl that still
            # runs.
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
        """Wait until the API server is ready; return False immediately if a component has ended."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and len(self.pids()) == len(COMPONENTS):
            if self._answers():
                return True
            time.sleep(0.1)
        return False

    def _create(self, tools: dict[str, Tool]) -> None:
        settings = on_loopback({**OPTIONS, **self._audit()}, *PATCHES)
        log_port = settings["options"]["kwokControllerPort"]
        pki = self.cluster / "pki"
        settings["componentsPatches"] += etcd.patches(settings["options"], pki)
        settings["componentsPatches"] += kubelets.patches(pki)
        documents = [settings, *stages.stages(log_port)]
        write_atomically(self._log_port, str(log_port))
        config = self.directory / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        arguments = ["--runtime", "binary", "--kubeconfig", ""]
        for tool in TOOLS[:4]:
            arguments += [f"--{tool}-binary", str(tools[tool].path)]
        arguments += ["--kwok-controller-binary", str(tools["kwok"].path)]
        status = self._kwokctl(tools, "create", "cluster", *arguments, "--config", str(config))
        if status or not (self._await_ready() or self._restart(tools)):
            reason = self.ended() or f"kwokctl ended with status {status}{self._said()}"
        else:
            return
        raise self.failure(reason)

    def failure(self, reason: str) -> SimulatorError:
        """Return the error for a cluster that isn't running, with the reason and the remedy."""
        return SimulatorError(
            f"embedded cluster {self.name}: {reason}; wanted: a control plane that answers; cure: "
            f"see to this cause, then run again; all logs: {self.cluster / 'logs'}"
        )

    def _said(self) -> str:
        return last_line(self.output)

    def _controller(self) -> set[int]:
        """Return the pids of the controller process of this cluster."""
        return {
            pid for pid in processes.marked(self.directory) if processes.is_running(pid, CONTROLLER)
        }

    def _audit(self) -> dict[str, str]:
        """Return the options for the API server's audit log if the variable `AUDIT` is set."""
        if not os.environ.get(AUDIT):
            return {}
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        return {"kubeAuditPolicy": str(policy)}

    @property
    def audit_log(self) -> Path:
        """Return the path of the API server's audit log, one JSON object per line.

        The log exists only if the variable `AUDIT` was set when the cluster was created.
        """
        return self.cluster / "logs" / "audit.log"

    def _kwokctl(self, tools: dict[str, Tool], *arguments: str) -> int:
        """Run kwokctl and return its exit status.

        Raises:
            ComponentError: A component that kwokctl waits for has ended.
            SimulatorError: kwokctl did not finish in time.
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
        """Write the kubeconfig for users of the cluster; only its owner may read the file."""
        text = kubeconfig.text(self.access(), self.context)
        self._draft.unlink(missing_ok=True)
        self._draft.touch(mode=0o600)
        self._draft.write_text(text)
        self._draft.replace(self.kubeconfig)

    @property
    def _draft(self) -> Path:
        return self.kubeconfig.with_suffix(".new")

    def stop(self) -> None:
        """Stop all components and remove the files that `start` wrote."""
        self.made.unlink(missing_ok=True)
        processes.stop(processes.pid_in(self.controller_pid), CONTROLLER)
        pids = self.pids()
        # etcd is stopped last because the other components write to etcd while they shut down.
        for component in reversed(COMPONENTS):
            processes.stop(pids.get(component), str(self.cluster))
        processes.stop_marked(self.directory)
        earlier = self.directory / "kwok"
        processes.stop_marked(earlier, variable=EARLIER)
        for path in (self.work, self.logs, self.directory / "bin", earlier):
            shutil.rmtree(path, ignore_errors=True)
        # Remove the temporary files of an interrupted write.
        drafts = (
            draft
            for path in (self.made, self._log_port)
            for draft in self.directory.glob(f".{path.name}.*")
        )
        for path in (
            self.kubeconfig,
            self._draft,
            self.directory / "kwok.yaml",
            self.output,
            self._log_port,
            *drafts,
        ):
            path.unlink(missing_ok=True)
