"""Run this project's validation and tests on one node, as the stack's command resources do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import Measuring, PoolValidation
from gpu_cluster.loading.loader import load
from gpu_cluster.requests import write
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.validation.component import priority_class
from gpu_cluster.validation.selection import ASKED, TESTS
from gpu_cluster_lab.simulator import set_fault
from gpu_cluster_lab.simulator.controller import devices
from gpu_cluster_lab.simulator.controller.judge import read_node
from gpu_cluster_lab.simulator.marks import GPU
from lab.real import stack
from lab.real.behaviours import Act, both, make, pod_name, withdraw
from lab.real.image import ALL_REDUCE, IMAGE
from lab.real.lab import GPUS, REAL, Json, Lab
from lab.real.node import RealError
from lab.real.validation_inspections import NAMESPACE, validation_pod

PROJECT = Path(__file__).parents[2]
POOL = "gpus"
LIMIT = 200
#: Test over all GPUs of a node, equal to the example in docs/explanation/validation.md.
ALL_REDUCE_TEST = {
    "image": IMAGE,
    "command": [f"/{ALL_REDUCE}", "-g", str(GPUS)],
    "gpus": GPUS,
    "pattern": "# Avg bus bandwidth : {figure}",
    "minimum": 350,
    "memoryGi": 1,
    "timeoutSeconds": 60,
}


def declared(
    lab: Lab,
    node: str,
    plugin: Json,
    pool: Json | None = None,
    platform: str = "device-plugin",
    **validation: Any,
) -> Cluster:
    """Return a stack configuration whose only pool is one node.

    Args:
        lab: The running test cluster.
        plugin: Additions to the device plugin's configuration.
        pool: Additions to the pool's settings.
        validation: Changes of the section `validation`.
    """
    document = stack.declared(lab.plane.context)
    document["pools"] = [{"name": POOL, "nodes": [node], "gpusPerNode": GPUS, **(pool or {})}]
    if platform == "device-plugin":
        document["devicePlugin"]["config"] |= plugin
    else:
        document["platform"] = platform
        del document["devicePlugin"]
    tests = {"all-reduce": ALL_REDUCE_TEST}
    document["validation"] = {
        "namespace": NAMESPACE, "timeoutSeconds": 90, "tests": tests, **validation
    }  # fmt: skip
    return load(document)


def prepare(lab: Lab) -> None:
    """Create the namespace and the PriorityClass that the stack creates before validation."""
    lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    lab.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class(NAMESPACE))


def validates(plugin: Json | None = None, **validation: Any) -> Act:
    """Return a function that validates a node and keeps the program's output in the lab."""

    def act(lab: Lab, node: str) -> None:
        _run_program(
            lab, node, "validation", "validate", _pool_document(lab, node, plugin or {}, validation)
        )

    return act


def forgets(lab: Lab, node: str) -> None:
    """Remove the node's validation record, as `destroy` does."""
    _run_program(lab, node, "validation", "forget", _pool_document(lab, node, {}, {}))


def measures(**validation: Any) -> Act:
    """Return a function that runs the test `all-reduce` over all GPUs of a node."""

    def act(lab: Lab, node: str) -> None:
        cluster = declared(lab, node, {}, **validation)
        _run_program(lab, node, "tests", "measure", resolve(cluster, node).validation.measuring)

    return act


def meanwhile(act: Act, then: Act) -> Act:
    """Return a function that starts `act`, and calls `then` while the validation pod runs."""

    def acted(lab: Lab, node: str) -> None:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(act, lab, node)
            lab.until(
                f"validation pod of {node}",
                lambda: done.done() or (validation_pod(lab, node) or {}).get("phase") == "Running",
                bool,
            )
            then(lab, node)
            done.result()

    return acted


def holds(what: str, count: int) -> Act:
    """Return a function that creates a pod with `count` GPUs and waits until the pod runs."""
    return both(make(what, count), awaits(what))


def awaits(what: str) -> Act:
    """Return a function that waits until a test pod runs."""

    def act(lab: Lab, node: str) -> None:
        lab.wait_phase(pod_name(node, what), "Running")

    return act


def withdraws(lab: Lab, node: str) -> None:
    """Simulate a critical XID on the node's first GPU, and wait until the GPU isn't allocatable."""
    withdraw(lab, node)
    lab.wait_offered(node, GPU, (GPUS, GPUS - 1))


def broken(kind: str, gpu: int, value: int, *words: str) -> Act:
    """Return a function that sets a fault of one GPU.

    On a real node the mock NVML library simulates the fault `kind`. On a simulated node the faults
    in `words` are set.
    """

    def act(lab: Lab, node: str) -> None:
        if node in REAL:
            real = lab.nodes[node]
            real.mock.fault(gpu, kind, value)
            real.mock.write(real.state)
        else:
            set_fault(lab.plane.name, node, *words)

    return act


def _pool_document(lab: Lab, node: str, plugin: Json, validation: Json) -> PoolValidation:
    cluster = declared(lab, node, plugin, **validation)
    # Use the node's name as the stack name, because each stack has its own validation record of a
    # node.
    return resolve(cluster, node).validation.pools[0]


def _run_program(
    lab: Lab, node: str, program: str, action: str, request: PoolValidation | Measuring
) -> None:
    """Run one of this project's programs and store its output in the lab's `said`.

    In the output, node names and UUIDs are replaced by names that are the same for real and
    simulated nodes.

    Raises:
        RealError: The program ended without a result and without a named error.
    """
    done = subprocess.run(
        ["components/gpu-cluster-program", program, action],
        cwd=PROJECT,
        env={
            **os.environ,
            "KUBECONFIG": str(lab.plane.kubeconfig),
            ASKED: node,
            TESTS: "all-reduce",
        },
        input=write(request),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    lines = plain(lab, node, done.stderr).splitlines()
    faults = [line for line in lines if "; wanted: " in line]
    if done.returncode and not faults:
        raise RealError(
            f"{program} of {node}: found exit code {done.returncode}; wanted: a result or its "
            f"errors; cure: see its output\n{done.stderr[-2000:]}"
        )
    if done.returncode:
        lab.said[node] = {"faults": faults}
    else:
        lab.said[node] = json.loads(plain(lab, node, done.stdout))


def plain(lab: Lab, node: str, text: str) -> str:
    """Replace device UUIDs in a text by their numbers, and the node's name by `NODE`."""
    for name, uuid in _device_uuids(lab, node):
        text = text.replace(uuid, name)
    return text.replace(node, "NODE")


def _device_uuids(lab: Lab, node: str) -> Iterator[tuple[str, str]]:
    """Yield a number-based name and the UUID of each device of a node.

    The names are the same for real and simulated nodes.
    """
    if node in REAL:
        mock = lab.nodes[node].mock
        gpus, parts = mock.uuids, mock.mig_uuids
    else:
        seen = read_node(lab.node(node))
        whole = devices.whole(node, range(GPUS))
        gpus = tuple(gpu.uuid for gpu in whole)
        mig = seen.mig if seen else {}
        divided = devices.devices(node, range(GPUS), {}, "single", mig) if mig else []
        parts = tuple(tuple(one.uuid for one in divided if one.gpu == gpu) for gpu in gpus)
    for index, uuid in enumerate(gpus):
        yield f"GPU {index}", uuid
    for index, uuids in enumerate(parts):
        for part, uuid in enumerate(uuids):
            yield f"MIG {index}:{part}", uuid
