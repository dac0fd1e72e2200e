"""Validation for each way of advertising GPUs, with eight results per way.

The validation is run by `up` and by the validation program. In one run, one node has a fault, one
is busy and one is idle. The next run validates all nodes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.record import RECORD
from gpu_cluster.validation import validation
from gpu_cluster.validation.selection import ASKED
from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.controller.devices import gpu_uuid
from tests.proofs.e2e.project import Project, figures
from tests.proofs.validation import ways
from tests.proofs.validation.conftest import TOUCHED
from tests.proofs.validation.requests import about_validations
from tests.proofs.validation.ways import Way

pytestmark = pytest.mark.full

Json = dict[str, Any]
Outcome = Callable[[str, str, bool], None]
FAILS, BUSY, IDLE = "gpu-1", "gpu-2", "gpu-3"
MERGE = "application/merge-patch+json"
TEMPLATES = "namespaces/default/resourceclaimtemplates"


def run(project: Project) -> tuple[dict[str, Json], str]:
    """Validate each pool with the validation program; return output by node, and error messages."""
    cluster = load(project.read())
    nodes: dict[str, Json] = {}
    errors = []
    for pool in resolve(cluster, project.stack).validation.pools:

        async def one(_: Any, pool: PoolValidation = pool) -> Json:
            return await validation.validate(pool)

        try:
            result = project.ask(one)
        except ClusterError as error:
            errors.append(str(error))
        else:
            nodes |= {node["name"]: node for node in result["nodes"]}
    return nodes, "\n".join(errors)


def note(project: Project, node: str) -> str:
    """Return the validation record in a node's annotation."""
    annotations = project.request("GET", f"nodes/{node}")["metadata"]["annotations"]
    return str(annotations.get(RECORD, "{}"))


def held(project: Project, way: Way) -> Json:
    """Create a pod that uses GPUs, wait until it runs, and return it."""
    if not way.holds:
        project.request("POST", TEMPLATES, base="/apis/resource.k8s.io", body=ways.claim(way))
    project.request("POST", "namespaces/default/pods", body=ways.holder(way, BUSY))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pod: Json = project.request("GET", "namespaces/default/pods/train")
        if pod["status"]["phase"] == "Running":
            return pod
        time.sleep(0.2)
    raise AssertionError(pod["status"])


def freed(project: Project, way: Way) -> None:
    """Delete the pod that uses GPUs, and its ResourceClaim."""
    project.request("DELETE", "namespaces/default/pods/train")
    if not way.holds:
        project.request("DELETE", f"{TEMPLATES}/train", base="/apis/resource.k8s.io")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = [
            item["metadata"]["name"]
            for item in project.request("GET", "namespaces/default/pods")["items"]
        ]
        claims = project.request(
            "GET", "namespaces/default/resourceclaims", base="/apis/resource.k8s.io"
        )["items"]
        if "train" not in names and not claims:
            return
        time.sleep(0.2)
    raise AssertionError(f"{names} {claims}")


def divide(project: Project, way: Way) -> None:
    """Partition the GPUs of the nodes into the MIG devices of a way."""
    profiles = ",".join(f"{name}={count}" for name, count in ways.MIG.items())
    value = profiles if way.divided else None
    for node in (FAILS, BUSY, IDLE):
        body = {"metadata": {"annotations": {marks.MIG: value}}}
        project.request("PATCH", f"nodes/{node}", body=body, content_type=MERGE)


@pytest.mark.clusters("validated")
@pytest.mark.parametrize("name", ways.WAYS)
def test_a_way_to_offer_gpus_is_validated_gpu_by_gpu(
    project: Project,
    outcome: Outcome,
    name: str,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = ways.WAYS[name]
    divide(project, way)
    project.write(ways.declared(project.stack, way))
    total = sum(pool.gpus for pool in load(project.read()).pools)
    first = figures(project.up())
    devices = {node: json.loads(note(project, node))["devices"] for node in (FAILS, BUSY, IDLE)}
    left_out = {
        (node, i) for node, d in way.pool.get("unhealthyDevices", {}).items() for i in d["index"]
    }
    wanted = {
        node: {gpu_uuid(node, i) for i in range(ways.GPUS) if (node, i) not in left_out}
        for node in devices
    }
    outcome(name, "each GPU by its UUID", {n: set(d) for n, d in devices.items()} == wanted)
    outcome(name, "as many as declared", first[:2] == (total, total))

    with about_validations(project.stack) as asked:
        again = figures(project.up())
    outcome(name, "a second run changes nothing", again == (total, total, 0))
    print(*asked, sep="\n")
    outcome(name, "and reads no Job and no pod", asked == [])

    pod = held(project, way)
    project.fault(FAILS, "kernel-fails=0")
    monkeypatch.setenv(ASKED, f"{FAILS},{BUSY}")
    before = note(project, IDLE)
    _, error = run(project)
    broken = f"node {FAILS}: " in error and "exit code 1" in error and f"node {BUSY}" not in error
    uuid = gpu_uuid(FAILS, 0)
    outcome(name, "a kernel that fails is named", broken and (way.divided or uuid in error))
    missing = json.loads(note(project, BUSY)).get("missing")
    outcome(name, "what others hold is deferred", missing == way.held)
    now = project.request("GET", "namespaces/default/pods/train")
    same = now["metadata"]["uid"] == pod["metadata"]["uid"] and now["status"]["phase"] == "Running"
    record_property(
        TOUCHED, 0 if same and not now["metadata"].get("deletionTimestamp") else way.held
    )
    outcome(name, "a node that was not asked for is left alone", note(project, IDLE) == before)

    freed(project, way)
    project.fault(FAILS)
    monkeypatch.delenv(ASKED)
    nodes, error = run(project)
    good = {name: node["simulated"] == node["declared"] for name, node in nodes.items()}
    outcome(name, "the next run takes up the rest", not error and all(good.values()))
