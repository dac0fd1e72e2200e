"""`gpu-cluster why` reports why a pod does not run, with only the RBAC role of a preview."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gpu_cluster.commands.why import READY, UNKNOWN, Trust, found, named
from gpu_rules.faults import FaultError
from maintenance.roles import Request
from tests.fixtures.api import client
from tests.proofs.attacks.allowed import allows

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
ROLE = next(yaml.safe_load_all((ROOT / "policies" / "roles" / "preview.yaml").read_text()))
GPU = "nvidia.com/gpu"
SANDBOX = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'


def pod(**parts: Any) -> Json:
    limits = {"limits": parts.pop("limits", {})}
    spec = {"containers": [{"name": "main", "resources": limits}], **parts.pop("spec", {})}
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": "u-1"},
        "spec": spec,
        "status": parts,
    }


def event(reason: str, message: str, **of: str) -> Json:
    return {"reason": reason, "message": message, "involvedObject": {"uid": "u-1", **of}}


class Cluster:
    """Fake API server with lists of objects; requests that the preview's role forbids get 403."""

    def __init__(self, **lists: list[Json]) -> None:
        self.lists = lists
        self.asked: set[Request] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, group = request.url.path.removeprefix("/api/v1/"), ""
        if path.startswith("/apis/"):
            _, _, group, _, path = path.split("/", 4)
        parts = path.split("/")
        if parts[0] == "namespaces" and len(parts) > 2:
            parts = parts[2:]
        resource = "pods/log" if parts[-1] == "log" else parts[0]
        verb = "list" if len(parts) == 1 else "get"
        self.asked.add(Request(group, resource, verb))
        if not allows(ROLE, Request(group, resource, verb)):
            return httpx.Response(403, json={"message": "forbidden", "reason": "Forbidden"})
        return httpx.Response(200, json={"items": self.lists.get(resource, []), "metadata": {}})


def why(cluster: Cluster, name: str = "train") -> Json:
    answer: Json = {}
    asyncio.run(found(client(cluster), "team", name, answer))
    return answer


@pytest.mark.promise("`gpu-cluster why` names a pod's cause with the role of previews alone.")
def test_a_previews_role_is_enough_to_name_a_failed_sandbox() -> None:
    starting = pod(spec={"nodeName": "gpu-1"}, phase="Pending")
    cluster = Cluster(pods=[starting], events=[event("FailedCreatePodSandBox", SANDBOX)])
    answer = why(cluster)
    assert answer["kind"] == "sandbox"
    assert SANDBOX in answer["cause"]
    assert answer["unread"] == []
    assert all(allows(ROLE, request) for request in cluster.asked)


def test_the_role_of_previews_reads_no_log_and_the_answer_says_so() -> None:
    assert not allows(ROLE, Request("", "pods/log", "get"))
    end = {"terminated": {"exitCode": 1, "message": "no device\n"}}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing = [{"name": "main", "state": state, "lastState": end}]
    answer = why(Cluster(pods=[pod(spec={"nodeName": "gpu-1"}, containerStatuses=crashing)]))
    assert answer["kind"] == "crash"
    assert answer["cause"].endswith("its last line: no device")
    assert answer["unread"] == ["logs of containers"]


def test_fragmented_gpus_are_counted_over_all_nodes_and_pods() -> None:
    count = {GPU: "8"}
    nodes = [
        {
            "metadata": {"name": f"gpu-{number}"},
            "spec": {},
            "status": {"capacity": count, "allocatable": count},
        }
        for number in range(4)
    ]
    holders = [
        pod(limits={GPU: "4"}, spec={"nodeName": f"gpu-{number}"}, phase="Running")
        for number in range(4)
    ]
    answer = why(Cluster(pods=[pod(limits={GPU: "8"}), *holders], nodes=nodes))
    assert answer["kind"] == "fragmentation"
    assert "node gpu-0 has 4 free" in answer["cause"]


def test_a_gpu_that_a_class_of_devices_serves_is_not_called_a_wrong_name() -> None:
    """Pods may request the extended resource of a DeviceClass, which no node advertises.

    Source: dra-driver-nvidia-gpu v0.5.0, templates/deviceclass-gpu.yaml.
    """
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": "gpu-1", "generation": 1}, "devices": []}
    message = "0/1 nodes are available: 1 cannot allocate all claims."
    scheduled = {"type": "PodScheduled", "status": "False", "message": message}
    waits = pod(limits={GPU: "1"}, conditions=[scheduled])
    nodes = [{"metadata": {"name": "gpu-1"}, "spec": {}, "status": {}}]
    answer = why(Cluster(pods=[waits], nodes=nodes, resourceslices=[{"spec": spec}]))
    assert answer["kind"] == "claim"
    assert "cannot allocate all claims" in answer["cause"]
    unnamed = pod(limits={GPU: "1"})
    assert why(Cluster(pods=[unnamed], nodes=nodes))["kind"] == "resource-name"


def test_a_job_whose_pod_a_quota_refuses_is_explained_by_its_own_name() -> None:
    said = event("FailedCreate", "Error creating: exceeded quota: gpus", kind="Job", name="train")
    job = {"metadata": {"name": "train", "namespace": "team", "uid": "u-1"}}
    used = {"requests.nvidia.com/gpu": "8"}
    quota = {"metadata": {"name": "gpus"}, "status": {"hard": used, "used": used}}
    answer = why(Cluster(events=[said], jobs=[job], resourcequotas=[quota]))
    assert answer["kind"] == "quota"
    assert "Job train can't create it" in answer["cause"]
    assert answer["unread"] == []


def test_words_of_an_event_choose_a_cure_only_where_the_stack_trusts_who_writes_events() -> None:
    starting = pod(spec={"nodeName": "gpu-1"}, phase="Pending")
    cluster = Cluster(pods=[starting], events=[event("FailedCreatePodSandBox", SANDBOX)])
    trusted: Json = {}
    asyncio.run(found(client(cluster), "team", "train", trusted, Trust(frozenset({"team"}))))
    assert "configure this runtime on the node" in trusted["cure"]
    assert why(cluster)["cure"].startswith("see the container runtime's log")


def test_a_pod_without_a_cause_is_not_given_one() -> None:
    ready = [{"name": "main", "ready": True, "state": {"running": {}}}]
    running = pod(spec={"nodeName": "gpu-1"}, phase="Running", containerStatuses=ready)
    assert why(Cluster(pods=[running]))["cause"] == READY
    answer = why(Cluster(pods=[pod()]))
    assert answer["cause"].startswith(UNKNOWN)
    assert "no events" in answer["cause"]
    assert "kubectl describe pod -n team train" in answer["cure"]


def test_a_pod_that_nobody_created_is_a_fault_with_a_cure() -> None:
    with pytest.raises(FaultError, match="no such pod"):
        why(Cluster())


@pytest.mark.parametrize(
    "text", ["", "train", "a/b/c", "team/", "/train", "team/../x", "A/b", "a/b,c=d"]
)
def test_only_a_namespace_and_a_name_are_taken(text: str) -> None:
    with pytest.raises(FaultError, match="gpu-cluster why default/train"):
        named(text)
    assert named("team/train-0.x") == ("team", "train-0.x")
