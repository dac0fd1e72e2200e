"""Workloads that are not ready, explained by their conditions, pods and events."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.nodes.causes import workloads
from gpu_cluster.nodes.causes.cause import Cause, Kind
from tests.fixtures.api import client

Json = dict[str, Any]
SPACE = "gpu-operator"
# NVIDIA/gpu-operator#549 and #2168 quote these messages of kubelets.
NO_RUNTIME = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: "
    'no runtime for "nvidia" is configured'
)
# A GKE cluster without the quota that priority classes of the system need: NVIDIA GPU Operator's
# documentation for GKE, "Preparing to use NVIDIA GPU Operator".
QUOTA = (
    "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-"
    "critical system-cluster-critical]}]"
)
FORBIDDEN = (
    'pods "gpu-operator-7d-x" is forbidden: violates PodSecurity "baseline:latest": host namespaces'
)


def workload(kind: str, name: str, spec: Json | None = None, **status: Any) -> Json:
    notes = {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": SPACE}
    selector = {"matchLabels": {"app": name}}
    metadata: Json = {"name": name, "namespace": SPACE, "uid": name, "annotations": notes}
    metadata["generation"] = 1
    return {
        "kind": kind,
        "metadata": {**metadata, "uid": name},
        "spec": {"selector": selector, **(spec or {})},
        "status": {"observedGeneration": 1, **status},
    }


def daemon_set(name: str, ready: int, wanted: int = 3) -> Json:
    counts = {"desiredNumberScheduled": wanted, "updatedNumberScheduled": wanted}
    return workload("DaemonSet", name, numberReady=ready, **counts)


def pod(name: str, app: str, **status: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": SPACE, "uid": name, "labels": {"app": app}},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending", **status},
    }


def event(reason: str, message: str, kind: str, name: str) -> Json:
    involved = {"kind": kind, "name": name, "uid": name}
    return {"reason": reason, "message": message, "involvedObject": involved}


class Server:
    """An API server with the workloads, pods and events of one namespace."""

    def __init__(
        self, *workloads: Json, pods: tuple[Json, ...] = (), events: tuple[Json, ...] = ()
    ):
        self.lists: dict[str, tuple[Json, ...]] = {"pods": pods}
        for kind in ("Deployment", "DaemonSet", "Job"):
            mine = tuple(item for item in workloads if item["kind"] == kind)
            self.lists[f"{kind.lower()}s"] = mine
        self.events = events

    def __call__(self, request: httpx.Request) -> httpx.Response:
        resource = request.url.path.rpartition("/")[2]
        if resource != "events":
            # The API server's lists have items without a kind.
            items = [
                {key: value for key, value in item.items() if key != "kind"}
                for item in self.lists.get(resource, ())
            ]
            return httpx.Response(200, json={"items": items, "metadata": {}})
        selected = dict(
            part.split("=") for part in request.url.params.get("fieldSelector", "=").split(",")
        )
        items = [
            item
            for item in self.events
            if selected.get("reason") in (None, item["reason"])
            and selected.get("involvedObject.uid") in (None, item["involvedObject"]["uid"])
        ]
        return httpx.Response(200, json={"items": items, "metadata": {}})


def lines(server: Server) -> list[str]:
    async def read() -> list[str]:
        api = client(server)
        return await workloads.lines_of(api, await workloads.late_of_release(api, SPACE, "gpu"))

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("item", "late"),
    [
        (daemon_set("plugin", 3), False),
        (daemon_set("plugin", 2), True),
        (daemon_set("no-node", 0, 0), False),
        ({**daemon_set("new", 3), "status": {}}, True),
        (workload("Deployment", "o", {"replicas": 1}, updatedReplicas=1, readyReplicas=1), False),
        (workload("Deployment", "o", {"replicas": 2}, updatedReplicas=2, readyReplicas=1), True),
        (workload("Deployment", "o", {"replicas": 0}), False),
        (workload("Deployment", "default-replicas"), True),
        (workload("Job", "hook"), True),
        (workload("Job", "hook", {"completions": 2}, succeeded=2), False),
    ],
)
def test_a_workload_is_late_until_its_pods_are_ready(item: Json, late: bool) -> None:
    assert workloads.is_late(item) is late


def test_pods_with_one_cause_share_a_line_with_its_cure() -> None:
    names = [f"plugin-{number}" for number in range(5)]
    server = Server(
        daemon_set("plugin", 0, 5),
        pods=tuple(pod(name, "plugin") for name in names),
        events=tuple(event("FailedCreatePodSandBox", NO_RUNTIME, "Pod", name) for name in names),
    )
    (line,) = lines(server)
    assert line.startswith("pods plugin-0, plugin-1, plugin-2 and 2 more: FailedCreatePodSandBox, ")
    assert "configure this runtime on the node" in line


def test_a_daemon_set_without_pods_names_what_refused_them() -> None:
    refused = event("FailedCreate", QUOTA, "DaemonSet", "plugin")
    other = event("FailedCreate", FORBIDDEN, "DaemonSet", "plugin-of-others")
    (line,) = lines(Server(daemon_set("plugin", 0), events=(other, refused)))
    assert "insufficient quota" in line
    assert line.startswith("DaemonSet plugin can't create it, reported by ")
    assert "ResourceQuota" in line


def test_a_deployment_keeps_what_refused_its_pods_after_the_events_are_gone() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": FORBIDDEN}
    item = workload("Deployment", "gpu-operator", conditions=[failure])
    assert "violates PodSecurity" in lines(Server(item))[0]
    ended = {**failure, "status": "False"}
    item = workload("Deployment", "gpu-operator", conditions=[ended])
    assert "violates PodSecurity" not in lines(Server(item))[0]


def test_an_event_about_a_workload_of_the_same_name_that_is_gone_does_not_count() -> None:
    gone = event("FailedCreate", FORBIDDEN, "DaemonSet", "plugin")
    gone["involvedObject"]["uid"] = "of-an-earlier-one"
    assert "violates PodSecurity" not in lines(Server(daemon_set("plugin", 0), events=(gone,)))[0]


def test_a_workload_without_a_known_cause_says_how_many_pods_are_ready() -> None:
    starting = pod("plugin-1", "plugin")
    assert lines(Server(daemon_set("plugin", 1), pods=(starting,))) == [
        f"DaemonSet {SPACE}/plugin: 1 of 3 pods ready"
    ]
    hook = workload("Job", "crds")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-upgrade"}
    assert lines(Server(hook)) == [f"Job {SPACE}/crds: 0 of 1 pods finished"]


def test_only_workloads_of_the_release_are_explained() -> None:
    other = daemon_set("other", 0)
    other["metadata"]["annotations"] = {"meta.helm.sh/release-name": "other"}
    by_hand = workload("Job", "by-hand")
    assert lines(Server(other, by_hand, daemon_set("plugin", 3))) == []


def test_equal_causes_are_grouped_in_their_order() -> None:
    first, second = Cause(kind=Kind.IMAGE, text="a"), Cause(kind=Kind.TAINT, text="b", cure="c")
    assert workloads.grouped([("x", first), ("y", second), ("z", first)]) == [
        "pods x, z: a",
        "pod y: b; cure: c",
    ]
