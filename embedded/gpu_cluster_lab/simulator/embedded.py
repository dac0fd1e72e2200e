"""Start, stop and inspect an embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gpu_cluster.machine import processes
from gpu_cluster.machine.folders import cache_dir, make_private
from gpu_cluster_lab.simulator import api, faults, marks, nodes, proxies
from gpu_cluster_lab.simulator.control_plane import (
    COMPONENTS,
    CONTROLLER,
    ControlPlane,
    SimulatorError,
)
from gpu_cluster_lab.simulator.hardware import Hardware
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.last_words import last_line
from gpu_rules.printable import printable

NOT_READY = "node.kubernetes.io/not-ready"
#: Timeout in seconds until all nodes are Ready: a fixed part, and a part for each node.
READY_SECONDS, EACH_READY = 60, 0.3
CONTROLLER_SECONDS = 30
LOCK_SECONDS = 120


@dataclass(frozen=True)
class Embedded:
    """Running embedded cluster.

    Attributes:
        name: Name of the cluster.
        directory: Folder of the cluster in the cache.
        kubeconfig: Path of the kubeconfig for users and tools.
        context: Name of the context in the kubeconfig.
        server: URL of the API server.
        nodes: Number of simulated nodes.
        started: True if this run started a process.
        changed: Number of nodes that this run created, changed or deleted.
    """

    name: str
    directory: Path
    kubeconfig: Path
    context: str
    server: str
    nodes: int
    started: bool = False
    changed: int = 0


@dataclass(frozen=True)
class Status:
    """Status of one embedded cluster.

    Attributes:
        name: Name of the cluster.
        running: Process ids of the running components, by component name.
        missing: Names of the components that don't run.
        ready: True if all components run and the API server responds.
        nodes: Number of simulated nodes, 0 if the cluster isn't ready.
    """

    name: str
    running: dict[str, int]
    missing: tuple[str, ...]
    ready: bool
    nodes: int = 0


def start(name: str, hardware: Hardware) -> Embedded:
    """Start the stopped parts of the cluster, and make its nodes match the hardware file.

    If everything runs and matches, nothing changes. SSH hosts are started by
    `gpu_cluster_lab.simulator.hosts.up`; a node whose SSH host doesn't run counts as not prepared.

    Raises:
        SimulatorError: A part failed to start; the message has the cause and the remedy.
    """
    plane = ControlPlane(name)
    with _lock_cluster(name), _explain_errors(plane):
        started = plane.start()
        started |= _start_controller(plane)
        changed, count = asyncio.run(_settle_nodes(plane, nodes.node_specs(hardware)))
        _wait_controller(plane)
    return Embedded(
        name=name,
        directory=plane.directory,
        kubeconfig=plane.kubeconfig,
        context=plane.context,
        server=plane.access().server,
        nodes=count,
        started=started,
        changed=changed,
    )


def down(name: str) -> None:
    """Stop every process of the cluster and remove its files; do nothing if there is no cluster."""
    plane = ControlPlane(name)
    if not plane.directory.exists():
        return
    with _lock_cluster(name):
        processes.stop(processes.pid_in(plane.controller_pid), CONTROLLER)
        plane.stop()
        for path in (plane.controller_pid, plane.controller_ready, plane.controller_log):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            plane.directory.rmdir()


def authority(name: str) -> Path:
    """Return the path of the cluster's CA certificate.

    The file exists once the cluster was created.
    """
    return ControlPlane(name).cluster / "pki" / "ca.crt"


def status(name: str) -> Status:
    """Return which components of the cluster run, without starting or changing anything."""
    plane = ControlPlane(name)
    running = plane.pids()
    pid = processes.pid_in(plane.controller_pid)
    if pid is not None and processes.is_running(pid, CONTROLLER):
        running["controller"] = pid
    missing = tuple(word for word in (*COMPONENTS, "controller") if word not in running)
    ready = not missing and plane.is_ready()
    return Status(name, running, missing, ready, asyncio.run(_count_ready(plane)) if ready else 0)


def set_fault(name: str, node: str, *words: str) -> None:
    """Replace the faults of a simulated node; without arguments the node becomes healthy.

    Raises:
        SimulatorError: The fault or the node is unknown.
    """
    text = ",".join(words)
    try:
        faults.parse(text)
    except faults.SimulatorFaultError as error:
        raise SimulatorError(str(error)) from error

    async def patch() -> None:
        async with api.connect(ControlPlane(name).access()) as client:
            body = {"metadata": {"annotations": {marks.FAULT: text or None}}}
            await client.request("PATCH", f"/api/v1/nodes/{node}", body, api.MERGE)

    try:
        asyncio.run(patch())
    except api.ApiError as error:
        raise SimulatorError(
            f"node {node}: {error}; wanted: a node of embedded cluster {name}"
        ) from error


@contextlib.contextmanager
def _lock_cluster(name: str) -> Iterator[None]:
    """Let only one run at a time change the cluster.

    The lock file is never removed: removing it would let two runs hold the lock.
    """
    folder = cache_dir() / "embedded"
    make_private(folder)
    with locked(folder / f".{name}.lock", LOCK_SECONDS):
        yield


@contextlib.contextmanager
def _explain_errors(plane: ControlPlane) -> Iterator[None]:
    """Convert errors of the system or the API server to a `SimulatorError` of one line."""
    try:
        yield
    except (OSError, aiohttp.ClientError, api.ApiError) as error:
        text = printable(str(error) or type(error).__name__)
        raise plane.failure(plane.ended() or text) from error


def _start_controller(plane: ControlPlane) -> bool:
    pid = processes.pid_in(plane.controller_pid)
    if processes.is_running(pid, CONTROLLER):
        if processes.pid_in(plane.controller_ready) == pid:
            return False
        processes.stop(pid, CONTROLLER)  # The controller process exists, but didn't become ready.
    # A run that was killed may have left a controller process without a pid file.
    processes.stop_marked(plane.directory, word=CONTROLLER)
    project = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH"))))
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # Use posix_spawn instead of Popen, because the controller process outlives this process.
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", CONTROLLER, "--name", plane.name],
        {
            **proxies.without(os.environ),
            "PYTHONPATH": path,
            "GPU_CLUSTER_CACHE": str(cache_dir()),
            processes.MARK: str(plane.directory),
        },
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(plane.controller_log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    plane.controller_pid.write_text(str(child))
    return True


def _wait_controller(plane: ControlPlane) -> None:
    deadline = time.monotonic() + CONTROLLER_SECONDS
    pid = processes.pid_in(plane.controller_pid)
    while processes.pid_in(plane.controller_ready) != pid:
        ended = not processes.is_running(pid, CONTROLLER)
        if ended or time.monotonic() > deadline:
            state = "has ended" if ended else f"is not ready after {CONTROLLER_SECONDS} s"
            raise SimulatorError(
                f"controller of embedded cluster {plane.name}: it {state}"
                f"{last_line(plane.controller_log)}; wanted: it follows all nodes; cure: see "
                f"{plane.controller_log}, then run again"
            )
        time.sleep(0.02)


async def _count_ready(plane: ControlPlane) -> int:
    async with api.connect(plane.access()) as client:
        nodes, _ = await client.list("/api/v1/nodes", resourceVersion="0")
    return len(nodes)


async def _settle_nodes(plane: ControlPlane, specs: tuple[nodes.NodeSpec, ...]) -> tuple[int, int]:
    """Create, change and delete nodes, and wait until all nodes are Ready.

    Returns:
        The number of changes and the number of nodes.
    """
    node_manifests = {spec.name: nodes.manifest(spec) for spec in specs}
    async with api.connect(plane.access()) as client:
        listed, _ = await client.list("/api/v1/nodes", resourceVersion="0")
        present = {node["metadata"]["name"]: node for node in listed}
        tasks: list[Any] = []
        for name, node in node_manifests.items():
            if name not in present:
                tasks.append(client.request("POST", "/api/v1/nodes", node))
            elif patch := nodes.difference(node, present[name]):
                tasks.append(client.request("PATCH", f"/api/v1/nodes/{name}", patch, api.MERGE))
        for name, node in present.items():
            fake = marks.FAKE_NODE in (node["metadata"].get("annotations") or {})
            if fake and name not in node_manifests:
                tasks.append(client.request("DELETE", f"/api/v1/nodes/{name}"))
        await api.gather(*tasks)
        if tasks or not all(map(_is_node_ready, listed)):
            await _wait_ready(plane, client, set(node_manifests))
    return len(tasks), len(node_manifests)


async def _wait_ready(plane: ControlPlane, client: api.Api, names: set[str]) -> None:
    limit = READY_SECONDS + EACH_READY * len(names)
    deadline = time.monotonic() + limit
    while True:
        listed, _ = await client.list("/api/v1/nodes", resourceVersion="0")
        ready = {node["metadata"]["name"] for node in listed if _is_node_ready(node)}
        if names <= ready:
            return
        if reason := plane.ended():
            raise plane.failure(reason)
        if time.monotonic() > deadline:
            late = sorted(names - ready)
            raise SimulatorError(
                f"nodes {', '.join(late[:10])}: not Ready after {limit:.0f} s; wanted: "
                f"{len(names)} Ready nodes; cure: see kwok-controller.log of the cluster"
            )
        # Wait longer between requests for large clusters: a list of 1,000 nodes is 3 MB.
        await asyncio.sleep(0.1 + len(names) / 1000)


def _is_node_ready(node: dict[str, Any]) -> bool:
    """Check that a node is Ready and no longer has the controller manager's not-ready taint."""
    if any(taint["key"] == NOT_READY for taint in node["spec"].get("taints") or []):
        return False
    conditions = node["status"].get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
