"""Readers of what the inspection and the steps of a run get from API servers and repositories."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from gpu_cluster.change.edits import edits, recorded_settings
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.hosts.kubeadm.component import manifests
from gpu_cluster.inspection import losses
from gpu_cluster.inspection.observed_cluster import observe_health
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.kubernetes.managers import HELM_RELEASE
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes import record
from gpu_cluster.nodes.causes import read, workloads
from gpu_cluster.platforms.base import Offer
from gpu_cluster.platforms.gpu_operator import operator_labels
from gpu_cluster.platforms.requests import NodeKeysRequest
from gpu_cluster.release.field_edits import field_edits, repaired
from gpu_cluster.release.inspect import surroundings
from gpu_cluster.requests import PREVIOUS, write
from gpu_cluster.rollout.inspect import BUDGETS, exhausted
from tests.fixtures.api import client
from tests.proofs.attacks.command_readers import Json, Shape, api, rows

SPACE = "gpu"
"""Namespace of the platform."""
GPU = "nvidia.com/gpu"


@contextmanager
def _connected(module: ModuleType, objects: Mapping[str, list[Json]]) -> Iterator[None]:
    """Let a module connect to a fake API server with some objects."""

    @asynccontextmanager
    async def connect(_: str) -> Any:
        yield client(api(objects))

    with patch.object(module, "connect", connect):
        yield


def _named(prefix: str, number: int, **metadata: Any) -> Json:
    name = f"{prefix}{number}"
    return {"metadata": {"name": name, "namespace": SPACE, "uid": f"u{number}", **metadata}}


def _run(work: Callable[[Client], Any], objects: Mapping[str, list[Json]]) -> Any:
    return asyncio.run(work(client(api(objects))))


# --- losses of pods ----------------------------------------------------------------------------


def _claim(number: int, node: int) -> Json:
    result = {"driver": DRA_DRIVER, "pool": f"n{node}", "device": f"gpu-{number}"}
    user = {"resource": "pods", "name": f"p{number}"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    return {**_named("c", number), "status": status}


def _pod(number: int, node: int) -> Json:
    limits = {"resources": {"limits": {GPU: "1"}}}
    spec = {"nodeName": f"n{node}", "containers": [{"name": "c", "image": "a", **limits}]}
    return {**_named("p", number, labels={"a": "b"}), "spec": spec}


def lose(case: tuple[int, Mapping[str, list[Json]]]) -> None:
    """Inspect the pods that would lose their GPUs on some nodes."""
    nodes, objects = case
    risk = losses.NodeAtRisk(gpus=0, joins=True)
    question = losses.LossesQuestion(
        context="c", nodes={f"n{number}": risk for number in range(nodes)}, claims=True
    )
    with _connected(losses, objects):
        asyncio.run(losses.observe_losses(question))


LOSSES: Mapping[str, Shape] = {
    "nodes and claims": lambda n: (n, {"resourceclaims": rows(n, lambda i: _claim(i, i))}),
    "claims of a node": lambda n: (1, {"resourceclaims": rows(n, lambda i: _claim(i, 0))}),
    "nodes and pods": lambda n: (n, {"pods": rows(n, lambda i: _pod(i, i))}),
    "pods of a node": lambda n: (1, {"pods": rows(n, lambda i: _pod(i, 0))}),
}
"""Number of nodes, and objects that the inspection of losses lists, by what grows."""


# --- controllers that can't create pods --------------------------------------------------------


def _controller(number: int) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "a"}]}}
    return {**_named("p0-", number), "spec": {"template": template, "completions": 1}}


def _refusal(kind: str, number: int) -> Json:
    about = {"kind": kind, "name": f"p0-{number}", "namespace": SPACE, "uid": f"other{number}"}
    return {
        **_named("e", number), "reason": "FailedCreate", "message": "no", "involvedObject": about,
    }  # fmt: skip


def refused(objects: Mapping[str, list[Json]]) -> None:
    """Find why controllers of the stack can't create pods."""
    _run(lambda api_client: read.lines_of_node(api_client, "n0", [SPACE]), objects)
    _run(lambda api_client: workloads.late_of_release(api_client, SPACE, "r"), objects)
    jobs = objects["jobs"]
    _run(lambda api_client: read.refused_jobs(api_client, SPACE, jobs), objects)
    late = [{**job, "kind": "Job"} for job in jobs]
    _run(lambda api_client: workloads.lines_of(api_client, late), objects)


def _controllers(number: int) -> Mapping[str, list[Json]]:
    return {
        "nodes": [_named("n", 0)],
        "jobs": rows(number, _controller),
        "daemonsets": rows(number, _controller),
        "events": [_refusal(kind, i) for kind in ("Job", "DaemonSet") for i in range(number)],
    }


CONTROLLERS: Mapping[str, Shape] = {"controllers and events": _controllers}
"""Objects that explain why pods were not created, by what grows."""


# --- surroundings, DaemonSets, budgets ---------------------------------------------------------


def surround(objects: Mapping[str, list[Json]]) -> None:
    """Read the state of the cluster outside the stack."""
    nodes = objects.get("nodes", [])
    _run(lambda api_client: surroundings(api_client, nodes, [], [SPACE], pods=[SPACE]), objects)


def _namespace(number: int) -> Json:
    return _named("s", number, labels={"app.kubernetes.io/managed-by": "gpu-cluster"})


SURROUNDINGS: Mapping[str, Shape] = {
    "namespaces": lambda n: {"namespaces": rows(n, _namespace)},
    "quotas": lambda n: {"resourcequotas": rows(n, lambda i: _named("q", i))},
    "DaemonSets": lambda n: {"daemonsets": rows(n, _controller)},
}
"""Objects outside the stack, by what grows."""


def _validated(number: int) -> Json:
    notes = {record.RECORD: record.encode(record.ValidationRecord())}
    return {**_named("n", number, annotations=notes), "status": {"allocatable": {GPU: "8"}}}


def validated(case: tuple[list[Json], list[Json]]) -> None:
    """Find the nodes that must be validated, given the DaemonSets of the cluster."""
    nodes, sets = case
    objects = {"nodes": nodes, "daemonsets": sets}
    pool = PoolValidation(
        context="c", pool="a", nodes=tuple(node["metadata"]["name"] for node in nodes),
        gpus=8, offers=(Offer(GPU, 8, 8),), namespace="gpu-validation", manager="gpu-cluster-a",
        timeout_seconds=1, busy="fail", settings={}, spaces=(SPACE,),
    )  # fmt: skip
    _run(lambda api_client: observe_health(api_client, [pool]), objects)


def _of_tenant(number: int) -> Json:
    made = _controller(number)
    return {**made, "metadata": {**made["metadata"], "namespace": "team"}}


VALIDATED: Mapping[str, Shape] = {
    "nodes": lambda n: (rows(n, _validated), []),
    "nodes and DaemonSets": lambda n: (rows(n, _validated), rows(n, _of_tenant)),
}
"""Nodes and DaemonSets, by what grows."""


def budgeted(objects: Mapping[str, list[Json]]) -> None:
    """Find the pods that PodDisruptionBudgets keep from being evicted."""
    _run(lambda api_client: exhausted(api_client, {SPACE}), objects)


def _budget(number: int) -> Json:
    selector = {"matchLabels": {"a": "b"}}
    return {**_named("b", number), "spec": {"selector": selector}, "status": {}}


BUDGETED: Mapping[str, Shape] = {
    "budgets and pods": lambda n: {
        "poddisruptionbudgets": rows(BUDGETS + n, _budget),
        "pods": rows(n, lambda i: _pod(i, 0)),
    },
}
"""Budgets and pods of a namespace, by what grows."""


# --- labels of nodes, objects of a release -----------------------------------------------------


def labelled(objects: Mapping[str, list[Json]]) -> None:
    """Note the labels of nodes before a platform, and find its labels after it."""
    request = NodeKeysRequest(context="c", labels=("nvidia.com/",), annotations=("nvidia.com/",))
    with _connected(operator_labels, objects):
        noted = asyncio.run(operator_labels.note(request))
        with patch.dict(os.environ, {PREVIOUS: write(noted)}):
            asyncio.run(operator_labels.remove(request))


LABELLED: Mapping[str, Shape] = {
    "nodes": lambda n: {"nodes": rows(n, lambda i: _named("n", i, labels={"nvidia.com/a": "b"}))},
    "labels": lambda n: {
        "nodes": [_named("n", 0, labels={f"nvidia.com/{i}": "b" for i in range(n)})]
    },
}
"""Nodes with labels of a platform, by what grows."""


def edited(pair: tuple[Json, Json]) -> None:
    """Find and repair the fields of an object that were changed without the release."""
    rendered, live = pair
    repaired(live, field_edits(rendered, live))


def _object(managers: int, variables: int, rendered: int) -> tuple[Json, Json]:
    """Return an object as it was rendered, and with more variables of other field managers."""
    names = [f"V{number}" for number in range(variables)]
    keys = [f'k:{{"name":"{name}"}}' for name in names]
    owned: list[Json] = [{key: {} for key in keys}, *({key: {}} for key in keys)]
    release: Json = {"f:metadata": {"f:annotations": {f"f:{HELM_RELEASE}": {}}}}
    entries = [
        {"manager": f"kubectl-{number}", "fieldsV1": {"f:spec": {"f:env": owned[number]}}}
        for number in range(managers)
    ]
    made = [{"name": name, "value": "a"} for name in names]
    metadata = {"managedFields": [*entries, {"manager": "helm", "fieldsV1": release}]}
    live = {"metadata": metadata, "spec": {"env": made}}
    return {"metadata": {}, "spec": {"env": made[:rendered]}}, live


FIELDS: Mapping[str, Shape] = {
    "elements of a list": lambda n: _object(1, n, 1),
    "rendered elements of a list": lambda n: _object(1, n, n),
    "field managers and elements": lambda n: _object(n, n, 1),
}
"""Objects of a release, rendered and in the cluster, by what grows."""


# --- files of a pull request -------------------------------------------------------------------


def compared(pair: tuple[str, Json]) -> None:
    """Compare the settings of a stack file with those of the last run."""
    edits(*pair)


def _settings(number: int) -> tuple[str, Json]:
    pools = rows(number, lambda i: {"name": f"p{i}", "gpusPerNode": 0})
    earlier = [{**pool, "labels": {"a": "b"}} for pool in pools]
    return recorded_settings({"pools": earlier}), {"pools": pools}


SETTINGS: Mapping[str, Shape] = {"pools": _settings}
"""Settings of the last run and of a stack file, by what grows."""


def network(text: str) -> None:
    """Read the manifest of a network add-on."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "network.yaml")
        file.write_text(text, errors="replace")
        manifests(str(file))
