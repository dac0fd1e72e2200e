"""HAMi's own scheduler and webhook decide about pods of a real kubelet as the simulated ones do.

`HAMI_SOURCE` names a folder with HAMi's source of the release that the simulator plays. The control
plane, kube-scheduler, HAMi's extender and webhook, kubelet and containerd are real. The device
plugin that advertises the node's GPUs is a fake (`lab/real/hami_plugin.py`), so no container gets a
GPU. The pods are first created on a simulated node with the simulated HAMi.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gpu_cluster.commands.output import Answer
from gpu_cluster.commands.why import found
from gpu_cluster.kubernetes.api import connect
from gpu_cluster_lab.simulator.api import ApiError
from gpu_cluster_lab.simulator.controller import hami as source
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY
from gpu_rules.kube.quantity import read_milli
from lab.real import build, hami
from lab.real import lab as real
from lab.real.image import IMAGE
from lab.real.lab import GPUS, REAL, SIMULATED, Lab
from lab.real.node import RealError

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

Json = dict[str, Any]
T = TypeVar("T")
SOURCE = os.environ.get("HAMI_SOURCE", "")
LIMIT = 240.0
"""Seconds for a scheduler and a kubelet on a busy machine."""
LAB_LIMIT = 3600.0
"""Seconds to wait for other tests on these nodes, which another test process may run."""
UNUSED = ("plugin", "dra", "nfd", "operator")
QUOTED, NODE = "quoted", "NODE"
QUOTA = {f"limits.{HAMI_MEMORY}": "5000"}
EVENTS = {"FilteringFailed", "FailedScheduling"}
NOTES = (source.ASSIGNED_NODE, source.ALLOCATED, source.PHASE)
RUNNING: Mapping[str, Json] = {
    "half-of-each": {GPU: str(GPUS), HAMI_MEMORY: "50000"},
    "rest-of-one": {HAMI_MEMORY: "30000", HAMI_CORES: "30"},
}
"""Limits of pods that fit, in the order in which they are created."""
WAITING: Mapping[str, tuple[Json, str]] = {
    "more-memory": ({HAMI_MEMORY: "40000"}, f"{GPUS}/{GPUS} CardInsufficientMemory"),
    "whole-gpu": ({GPU: "1"}, f"{GPUS}/{GPUS} CardInsufficientMemory"),
    "all-cores": ({HAMI_MEMORY: "1000", HAMI_CORES: "100"}, "1/8 CardInsufficientCore"),
    "more-gpus": ({GPU: str(GPUS + 1)}, "NodeInsufficientDevice"),
}
"""Limits of pods for which too little is left, and HAMi's word for it."""
DENIED: Mapping[str, tuple[Json, str]] = {
    "above-quota": ({GPU: "2", HAMI_MEMORY: "3000"}, "exceeding resource quota"),
    "privileged": ({GPU: "1", HAMI_MEMORY: "1"}, "container main is privileged"),
}
"""Limits of pods that the webhook refuses, and its words."""


@dataclass
class Decisions:
    """What HAMi decided about each pod; names of node and GPUs are replaced.

    Attributes:
        running: Admitted limits, phase and HAMi's annotations of pods that fit, by name.
        waiting: Events and cause of pods that wait, by name.
        denied: Message of the API server for refused pods, by name.
    """

    running: dict[str, Json] = field(default_factory=dict)
    waiting: dict[str, Json] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)


def pod(name: str, node: str, limits: Json) -> Json:
    container: Json = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/probe", "hold"],
        "resources": {"limits": limits},
    }
    if name == "privileged":
        container["securityContext"] = {"privileged": True}
    return {
        "metadata": {"name": f"{name}-{node}"},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container],
        },
    }


def placed(lab: Lab, name: str, node: str) -> Json:
    """Return a pod's admitted limits, its phase and HAMi's annotations."""
    shown = lab.pod(f"{name}-{node}")
    (container,) = shown["spec"]["containers"]
    notes = shown["metadata"].get("annotations") or {}
    text = repr({key: notes.get(key) for key in NOTES}).replace(node, NODE)
    for gpu in whole(node, range(GPUS)):
        text = text.replace(gpu.uuid, f"gpu {gpu.index}")
    limits = container["resources"]["limits"]
    return {
        "phase": shown["status"].get("phase"),
        "scheduler": shown["spec"]["schedulerName"],
        "limits": {key: read_milli(amount) for key, amount in limits.items()},
        "notes": text,
    }


def told(lab: Lab, name: str, node: str) -> Json:
    """Return the Events of a pod that waits, and what `gpu-cluster why` says about it."""
    uid = lab.pod(f"{name}-{node}")["metadata"]["uid"]
    selector = f"involvedObject.uid={uid}"
    items = lab.request("GET", "/api/v1/namespaces/default/events", fieldSelector=selector)["items"]
    events = {
        (
            item["type"],
            item["reason"],
            item.get("reportingComponent") or item["source"]["component"],
            item["message"].replace(node, NODE),
        )
        for item in items
    }
    answer = why(lab, f"{name}-{node}")
    cause = str(answer["cause"]).replace(node, NODE)
    for _, reason, _, message in events:
        # Which of two Events of the same second is quoted, is not determined.
        if reason == "FilteringFailed":
            cause = cause.replace(message, reason)
    cure = str(answer["cure"]).replace(node, NODE)
    return {"events": sorted(events), "kind": answer["kind"], "cause": cause, "cure": cure}


def why(lab: Lab, name: str) -> Answer:
    """Return what `gpu-cluster why` says about a pod."""

    async def ask() -> Answer:
        answer: Answer = {}
        async with connect(lab.plane.context) as client:
            await found(client, "default", name, answer)
        return answer

    return asyncio.run(ask())


def refusal(lab: Lab, name: str, node: str) -> str:
    """Return the API server's message for a refused pod; empty for an admitted pod."""
    path, (limits, words) = f"/api/v1/namespaces/{QUOTED}/pods", DENIED[name]
    try:
        lab.request("POST", path, pod(name, node, limits))
    except ApiError as error:
        message = str(error).replace(node, NODE)
        # A new namespace has no service account yet, so pods are refused for that reason first.
        return message if words in message else ""
    lab.request("DELETE", f"{path}/{name}-{node}", gracePeriodSeconds="0")
    return ""


def runs(seen: Json) -> bool:
    return bool(seen["phase"] == "Running")


def is_decided(seen: Json) -> bool:
    return {reason for _, reason, _, _ in seen["events"]} >= EVENTS


def wait(
    lab: Lab, name: str, read: Callable[[], T], ends: Callable[[T], bool], wanted: T | None
) -> T:
    """Wait until a decision is `wanted`, or without it until `ends` holds; return the last one."""
    try:
        holds = ends if wanted is None else (lambda seen: bool(seen == wanted))
        return lab.until(name, read, holds, LIMIT)
    except RealError:
        return read()


def decide(lab: Lab, node: str, wanted: Decisions | None = None) -> Decisions:
    """Create the pods and return the decisions.

    Args:
        lab: The running test cluster.
        node: Node of the pods.
        wanted: Decisions for which the wait lasts; without it, for any decision.
    """
    given, wanted = Decisions(), wanted or Decisions()
    for name, limits in RUNNING.items():
        lab.create(pod(name, node, limits))
        read = partial(placed, lab, name, node)
        given.running[name] = wait(lab, name, read, runs, wanted.running.get(name))
    for name, (limits, _) in WAITING.items():
        lab.create(pod(name, node, limits))
    for name in WAITING:
        read = partial(told, lab, name, node)
        given.waiting[name] = wait(lab, name, read, is_decided, wanted.waiting.get(name))
    for name in DENIED:
        refused = partial(refusal, lab, name, node)
        given.denied[name] = wait(lab, name, refused, bool, wanted.denied.get(name))
    for name in (*RUNNING, *WAITING):
        lab.delete(f"{name}-{node}")
    return given


@dataclass
class Both:
    """Decisions of the simulated HAMi and of HAMi's own scheduler."""

    simulated: Decisions
    real: Decisions


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    if not SOURCE:
        pytest.skip("HAMI_SOURCE names no folder with HAMi's source")
    try:
        extender = build.build_hami_scheduler(Path(SOURCE))
    except build.BuildError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("hami")
    with real.running(LAB_LIMIT, UNUSED) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(lab.plane.kubeconfig))
        lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": QUOTED}})
        quotas = f"/api/v1/namespaces/{QUOTED}/resourcequotas"
        lab.request("POST", quotas, {"metadata": {"name": "shares"}, "spec": {"hard": QUOTA}})
        with hami.simulated(lab, SIMULATED[0], SIMULATED[1]):
            simulated = decide(lab, SIMULATED[0])
        with hami.real(lab, REAL[0], extender, folder):
            yield Both(simulated, decide(lab, REAL[0], simulated))


def counted(names: Iterable[str]) -> list[Any]:
    """Return the names as parameters that `make test-documents` selects."""
    return [pytest.param(name, marks=pytest.mark.documents("kubelet", name)) for name in names]


@pytest.mark.parametrize("name", counted(RUNNING))
def test_a_pod_within_its_share_runs_on_a_real_kubelet(both: Both, name: str) -> None:
    assert both.real.running[name]["phase"] == "Running"
    assert "success" in both.real.running[name]["notes"]
    assert both.real.running[name] == both.simulated.running[name]


@pytest.mark.parametrize("name", counted(WAITING))
def test_a_pod_for_which_too_little_is_left_waits_with_hamis_words(both: Both, name: str) -> None:
    word = WAITING[name][1]
    assert any(word in message for *_, message in both.real.waiting[name]["events"])
    assert word in both.real.waiting[name]["cause"]
    assert both.real.waiting[name] == both.simulated.waiting[name]


@pytest.mark.parametrize("name", counted(DENIED))
def test_a_pod_that_hamis_webhook_refuses_gets_the_same_message(both: Both, name: str) -> None:
    assert DENIED[name][1] in both.real.denied[name]
    assert both.real.denied[name] == both.simulated.denied[name]
