"""Our validation and our tests on one node, as the stack's Commands run them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from components.desired.resolve import resolve
from components.desired.validation import Measuring, PoolValidation
from components.loading.loader import load
from components.requests import write
from components.settings.cluster import Cluster
from components.validation.component import priority_class
from components.validation.selection import ASKED, TESTS
from lab.real import stack
from lab.real.behaviours import Act, both, make, pod_name, withdraw
from lab.real.image import ALL_REDUCE, IMAGE
from lab.real.lab import GPUS, REAL, Json, Lab
from lab.real.node import RealError
from lab.real.validation_inspections import NAMESPACE, validation_pod
from lab.simulator import set_fault
from lab.simulator.controller import devices
from lab.simulator.controller.judge import read_node
from lab.simulator.marks import GPU

PROJECT = Path(__file__).parents[2]
POOL = "gpus"
LIMIT = 200
#: A test over all GPUs, as docs/validation.md has it.
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
    """A stack whose one pool is the node.

    Args:
        lab: the running cluster.
        node: its name.
        plugin: of the plugin's configuration, beside how devices get into containers.
        pool: of the pool.
        platform: its name.
        validation: changes of its section.
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
    """Make what the stack makes before it validates."""
    lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    lab.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class(NAMESPACE))


def validates(plugin: Json | None = None, **validation: Any) -> Act:
    """Validate a node anew; what the program says is kept in the lab (`declared`)."""

    def act(lab: Lab, node: str) -> None:
        _run(lab, node, "validation", "validate", _document(lab, node, plugin or {}, validation))

    return act


def forgets(lab: Lab, node: str) -> None:
    """Take the node's record away, as the stack's end does."""
    _run(lab, node, "validation", "forget", _document(lab, node, {}, {}))


def measures(**validation: Any) -> Act:
    """Run the test over all GPUs of a node."""

    def act(lab: Lab, node: str) -> None:
        cluster = declared(lab, node, {}, **validation)
        _run(lab, node, "tests", "measure", resolve(cluster, node).validation.measuring)

    return act


def meanwhile(act: Act, then: Act) -> Act:
    """Validate with ``act``, and do ``then`` as soon as its pod runs."""

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
    """Create a pod that asks for so many GPUs, and wait until it runs."""
    return both(make(what, count), awaits(what))


def awaits(what: str) -> Act:
    """Wait until a pod runs."""

    def act(lab: Lab, node: str) -> None:
        lab.wait_phase(pod_name(node, what), "Running")

    return act


def withdraws(lab: Lab, node: str) -> None:
    """A critical XID on the first GPU, and wait until it isn't offered."""
    withdraw(lab, node)
    lab.wait_offered(node, GPU, (GPUS, GPUS - 1))


def broken(kind: str, gpu: int, value: int, *words: str) -> Act:
    """A fault of one GPU of the real node; of the simulated one ``words`` say the same."""

    def act(lab: Lab, node: str) -> None:
        if node in REAL:
            real = lab.nodes[node]
            real.mock.fault(gpu, kind, value)
            real.mock.write(real.state)
        else:
            set_fault(lab.plane.name, node, *words)

    return act


def _document(lab: Lab, node: str, plugin: Json, validation: Json) -> PoolValidation:
    cluster = declared(lab, node, plugin, **validation)
    # Records tell stacks apart: each node is one here.
    return resolve(cluster, node).validation.pools[0]


def _run(
    lab: Lab, node: str, program: str, action: str, request: PoolValidation | Measuring
) -> None:
    """Run a program of ours and keep what it said, with names that both kinds of nodes share.

    Raises:
        RealError: it ended otherwise than by a result or by errors that it names.
    """
    done = subprocess.run(
        ["sh", "components/run.sh", program, action],
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
    """The same with each GPU by its number and the node as ``NODE``."""
    for name, uuid in _uuids(lab, node):
        text = text.replace(uuid, name)
    return text.replace(node, "NODE")


def _uuids(lab: Lab, node: str) -> Iterator[tuple[str, str]]:
    """A name that both kinds of nodes share, and the UUID, of each device."""
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
