"""B12: what a new node and a new pool cost a first run: requests, and processor time.

The programs that set labels and validate GPUs run as the Commands of a stack run them, against the
real control plane of an embedded cluster, whose API server writes an audit log. The costs of a node
and of a pool are differences between three sizes, so that what each run costs once is left out. The
three costs are a model of any run, which is held against a fourth run.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpu_cluster.desired.pool import PoolsScheduling
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.desired.validation import PoolsValidation
from gpu_cluster.loading.loader import load
from gpu_cluster.requests import write as written
from gpu_cluster.validation.component import priority_class
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import api
from gpu_cluster_lab.simulator.control_plane import AUDIT, ControlPlane
from gpu_cluster_lab.simulator.hardware import hardware_of
from lab.benchmarks.measure import BenchmarkError, write

REQUESTS_GOAL = 20.0
"""Most requests of this program and of the control plane for a new node with eight GPUs."""
POOL_GOAL = 3.0
"""Most nodes that cost as much processor time of this program as a pool."""
GPUS = 8
FEW, MANY, POOLS = 20, 60, 20
"""Numbers of nodes in one pool, and number of pools among which `MANY` nodes are divided."""
HELD = (100, 10)
"""Nodes and pools of a run that the cost model predicts, and that it was not fitted to."""
MODEL_GOAL = 0.25
"""Largest part by which that run may differ from what the model predicts."""
OURS = "gpu-cluster"
SIMULATOR = ("kwok", "Python", "python")
"""User agents of what stands for kubelets, device plugins and hardware, before a slash."""
PLUGIN = {"app.kubernetes.io/name": "nvidia-device-plugin"}

Json = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """What a first run took: requests by client, and seconds of processor time of the programs."""

    requests: Mapping[str, int]
    seconds: float


def desired_of(stack: str, nodes: int, pools: int) -> Desired:
    """Return a stack whose nodes are divided among pools."""
    each = nodes // pools
    declared = [
        {"name": f"p{n}", "nodes": [f"p{n}-[1-{each}]"], "gpusPerNode": GPUS}
        for n in range(1, pools + 1)
    ]
    context = {"context": f"gpu-cluster-{stack}"}
    document = {"version": "v1", "kubernetes": context, "platform": "device-plugin"}
    return resolve(load({**document, "pools": declared}), stack)


@contextmanager
def cluster(stack: str, nodes: int, pools: int) -> Iterator[ControlPlane]:
    """Start an embedded cluster in which the stack's device plugin waits for labelled nodes."""
    declared = [
        {"name": f"p{n}", "nodes": [f"p{n}-[1-{nodes // pools}]"], "gpusPerNode": GPUS}
        for n in range(1, pools + 1)
    ]
    settings = load(
        {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{stack}"},
            "platform": "device-plugin",
            "pools": declared,
        }
    )
    os.environ[AUDIT] = "1"
    try:
        simulator.start(stack, hardware_of(settings.pools, settings.hosts))
        plane = ControlPlane(stack)
        asyncio.run(_prepare(plane))
        yield plane
    finally:
        simulator.down(stack)
        del os.environ[AUDIT]


async def _prepare(plane: ControlPlane) -> None:
    """Create what the engine creates before the validation: namespace, priority, device plugin."""
    space = "gpu-validation"
    template = {
        "metadata": {"labels": PLUGIN},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu": "true"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "nvidia-device-plugin-ctr", "image": "plugin"}],
        },
    }
    plugin = {
        "metadata": {"name": "plugin"},
        "spec": {"selector": {"matchLabels": PLUGIN}, "template": template},
    }
    async with api.connect(plane.access()) as client:
        await client.request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await client.request("POST", path, priority_class(space))
        path = "/apis/apps/v1/namespaces/default/daemonsets"
        await client.request("POST", path, plugin)


def run_program(plane: ControlPlane, program: str, action: str, request: str) -> None:
    """Run a program as a Command does.

    Raises:
        BenchmarkError: The program failed; the message has its output.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gpu_cluster.programs", program, action],
        input=request,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchmarkError(f"{program} {action}: {done.stderr}")


def first_run(stack: str, nodes: int, pools: int) -> Cost:
    """Label and validate all nodes of a new cluster; return what it cost."""
    desired = desired_of(stack, nodes, pools)
    with cluster(stack, nodes, pools) as plane:
        log = plane.audit_log
        begin, before = log.stat().st_size, _children_seconds()
        scheduling, validation = desired.scheduling.pools, desired.validation.pools
        labels = written(PoolsScheduling(context=desired.context, pools=scheduling))
        run_program(plane, "node-scheduling", "apply", labels)
        kernels = written(PoolsValidation(context=desired.context, pools=validation))
        run_program(plane, "validation", "validate", kernels)
        seconds = _children_seconds() - before
        time.sleep(3)  # The control plane deletes the last Jobs and writes events.
        with log.open("rb") as file:
            file.seek(begin)
            return Cost(_clients(file.read().splitlines()), seconds)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _clients(lines: list[bytes]) -> Counter[str]:
    """Return the number of requests by client; leases, which time alone explains, are left out."""
    counted: Counter[str] = Counter()
    for line in lines:
        event = json.loads(line)
        if (event.get("objectRef") or {}).get("resource") == "leases":
            continue
        agent = str(event.get("userAgent", "")).partition("/")[0]
        counted["simulated kubelets" if agent in SIMULATOR else agent or "other"] += 1
    return counted


def per_node(few: Cost, many: Cost) -> dict[str, float]:
    """Return the requests that a further node costs, by client."""
    return {
        name: (many.requests[name] - few.requests.get(name, 0)) / (MANY - FEW)
        for name in many.requests
    }


def run() -> bool:
    """Run benchmark B12 and print its results; return True if all goals are met."""
    stack = f"b12-{os.getpid()}"
    few, many = first_run(stack, FEW, 1), first_run(stack, MANY, 1)
    divided = first_run(stack, MANY, POOLS)
    requests = per_node(few, many)
    real = sum(number for name, number in requests.items() if name != "simulated kubelets")
    ours = sum(number for name, number in requests.items() if name.startswith(OURS))
    node = (many.seconds - few.seconds) / (MANY - FEW)
    pool = (divided.seconds - many.seconds) / (POOLS - 1) / node
    once = few.seconds - FEW * node - pool * node
    nodes, pools = HELD
    predicted = once + nodes * node + pools * pool * node
    held = first_run(stack, nodes, pools).seconds
    parts = ", ".join(
        f"{name} {number:.1f}"
        for name, number in sorted(requests.items(), key=lambda each: -each[1])
    )
    print(f"requests of a new node with {GPUS} GPUs: {parts}")
    print(
        f"processor time of this program: {once:.2f} s a run, {node * 1000:.0f} ms a node, "
        f"{pool * node * 1000:.0f} ms a pool; {nodes} nodes in {pools} pools: {predicted:.2f} s "
        f"predicted, {held:.2f} s measured"
    )
    met = real <= REQUESTS_GOAL and pool <= POOL_GOAL and abs(held / predicted - 1) <= MODEL_GOAL
    write(
        "B12",
        {"requests": requests, "real": real, "once": once, "node": node, "pool": pool,
         "predicted": predicted, "held": held, "met": met},
    )  # fmt: skip
    print(
        f"B12: {real:.1f} requests a node, {ours:.1f} of them by this program "
        f"(goal ≤ {REQUESTS_GOAL:g}), a pool costs {pool:.1f} nodes (goal ≤ {POOL_GOAL:g})"
    )
    return met
