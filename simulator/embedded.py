"""The embedded cluster as a whole: up, down, status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import Cluster
from simulator import api, faults, marks, nodes, processes
from simulator.control_plane import COMPONENTS, ControlPlane, SimulatorError
from simulator.hosts.locks import locked
from toolchain import cache_dir

CONTROLLER = "simulator.controller"
READY_SECONDS = 60
LOCK_SECONDS = 120


@dataclass(frozen=True)
class Embedded:
    """A running embedded cluster.

    ``kubeconfig`` and ``context``: for tools; ``server``: the API server's URL; ``nodes``: how many
    simulated nodes; ``started``: whether this run started anything; ``changed``: how many nodes
    this run created, changed or deleted.
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
    """What runs of one embedded cluster: pid by component; ``ready``: all of it, answering."""

    name: str
    running: dict[str, int]
    missing: tuple[str, ...]
    ready: bool
    nodes: int = 0


def up(name: str, cluster: Cluster) -> Embedded:
    """Start what is missing and make the nodes be those of ``cluster``'s pools.

    A second call changes nothing. SSH hosts are not started here (``simulator.hosts.up``); a node
    whose host does not run is not prepared.

    :raises SimulatorError: with what failed and the cure.
    """
    plane = ControlPlane(name)
    with _locked(name):
        started = plane.start()
        started |= _start_controller(plane)
        changed, count = asyncio.run(_settle(plane, nodes.node_specs(cluster)))
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
    """End every process of the cluster and remove its files; nothing to do is no error."""
    plane = ControlPlane(name)
    if not plane.directory.exists():
        return
    with _locked(name):
        pid_file = plane.directory / "controller.pid"
        processes.stop(processes.pid_in(pid_file), CONTROLLER)
        plane.stop()
        for path in (pid_file, plane.directory / "controller.log"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            plane.directory.rmdir()


def status(name: str) -> Status:
    """What runs; never starts or changes anything."""
    plane = ControlPlane(name)
    running = plane.pids()
    pid = processes.pid_in(plane.directory / "controller.pid")
    if pid is not None and processes.is_running(pid, CONTROLLER):
        running["controller"] = pid
    missing = tuple(word for word in (*COMPONENTS, "controller") if word not in running)
    ready = not missing and plane.is_ready()
    return Status(name, running, missing, ready, asyncio.run(_count(plane)) if ready else 0)


def set_fault(name: str, node: str, *words: str) -> None:
    """Give a node these faults, in place of the ones it has; none heals it.

    :raises SimulatorError: an unknown fault or node.
    """
    text = ",".join(words)
    try:
        faults.parse(text)
    except faults.FaultError as error:
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
def _locked(name: str) -> Iterator[None]:
    """One run at a time. The lock file stays: removing it would let two runs hold it."""
    with locked(cache_dir() / "embedded" / f".{name}.lock", LOCK_SECONDS):
        yield


def _start_controller(plane: ControlPlane) -> bool:
    pid_file = plane.directory / "controller.pid"
    if processes.is_running(processes.pid_in(pid_file), CONTROLLER):
        return False
    project = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH"))))
    with (plane.directory / "controller.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", CONTROLLER, "--name", plane.name],
            cwd=plane.directory,
            env={**os.environ, "PYTHONPATH": path, "GPU_CLUSTER_CACHE": str(cache_dir())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    pid_file.write_text(str(process.pid))
    return True


async def _count(plane: ControlPlane) -> int:
    async with api.connect(plane.access()) as client:
        found, _ = await client.list("/api/v1/nodes", resourceVersion="0")
    return len(found)


async def _settle(plane: ControlPlane, specs: tuple[nodes.NodeSpec, ...]) -> tuple[int, int]:
    """Create, change and delete nodes; wait until all are Ready. Gives changes and nodes."""
    wanted = {spec.name: nodes.manifest(spec) for spec in specs}
    async with api.connect(plane.access()) as client:
        listed, _ = await client.list("/api/v1/nodes", resourceVersion="0")
        found = {node["metadata"]["name"]: node for node in listed}
        tasks: list[Any] = []
        for name, node in wanted.items():
            if name not in found:
                tasks.append(client.request("POST", "/api/v1/nodes", node))
            elif patch := nodes.difference(node, found[name]):
                tasks.append(client.request("PATCH", f"/api/v1/nodes/{name}", patch, api.MERGE))
        for name, node in found.items():
            fake = marks.FAKE_NODE in (node["metadata"].get("annotations") or {})
            if fake and name not in wanted:
                tasks.append(client.request("DELETE", f"/api/v1/nodes/{name}"))
        await api.gather(*tasks)
        if tasks or not all(map(_is_ready, listed)):
            await _wait_ready(client, set(wanted))
    return len(tasks), len(wanted)


async def _wait_ready(client: api.Api, wanted: set[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        listed, _ = await client.list("/api/v1/nodes", resourceVersion="0")
        ready = {node["metadata"]["name"] for node in listed if _is_ready(node)}
        if wanted <= ready:
            return
        if time.monotonic() > deadline:
            late = sorted(wanted - ready)
            raise SimulatorError(
                f"nodes {', '.join(late[:10])}: not Ready after {READY_SECONDS} s; wanted: "
                f"{len(wanted)} Ready nodes; cure: see kwok-controller.log of the cluster"
            )
        await asyncio.sleep(0.1)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
