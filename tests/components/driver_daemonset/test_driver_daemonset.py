"""Waiting for driver installers, against a function in place of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gpu_cluster.driver_daemonset import driver_daemonset
from gpu_cluster.driver_daemonset.driver_daemonset import InstallersRequest
from gpu_cluster.kubernetes.api import Client, ClusterError
from tests.fixtures.api import client

Json = dict[str, Any]
STARTING = {"waiting": {"reason": "ContainerCreating"}}


def daemon_set(ready: int) -> Json:
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": ready}
    return {
        "metadata": {
            "name": "installer",
            "namespace": "gpu-driver",
            "generation": 1,
            "uid": "u-installer",
        },
        "spec": {"selector": {"matchLabels": {"app": "installer"}}},
        "status": {"observedGeneration": 1, **counts},
    }


def pod(*statuses: Json) -> Json:
    return {
        "metadata": {"name": "installer-x", "namespace": "gpu-driver", "uid": "u"},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "pause"}]},
        "status": {"phase": "Pending", "initContainerStatuses": list(statuses)},
    }


def waited(
    monkeypatch: pytest.MonkeyPatch,
    *pods: Json,
    events: tuple[Json, ...] = (),
    ready: int = 0,
    seconds: int = 0,
) -> Json:
    """Wait for a driver installer's DaemonSet in a fake cluster whose state does not change."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/daemonsets/installer"):
            return httpx.Response(200, json=daemon_set(ready))
        if path.endswith("/log"):
            return httpx.Response(404, json={"message": "no log"})
        listed = {"events": events, "daemonsets": (daemon_set(ready),)}
        items = listed.get(path.rpartition("/")[2], pods)
        return httpx.Response(200, json={"items": list(items), "metadata": {}})

    @asynccontextmanager
    async def connect(context: str) -> AsyncIterator[Client]:
        yield client(answer)

    monkeypatch.setattr(driver_daemonset, "connect", connect)
    request = InstallersRequest(
        context="any", namespace="gpu-driver", daemon_sets=("installer",), timeout_seconds=seconds
    )
    return asyncio.run(driver_daemonset.wait(request))


@pytest.mark.promise("An installer of the driver that does not start is named with its cause.")
@pytest.mark.parametrize(
    ("status", "event", "said", "cure"),
    [
        (
            STARTING,
            {"reason": "FailedMount", "message": 'configmap "drivers" not found'},
            "node gpu-1: found FailedMount, reported by a component without a name: “configmap ",
            "create this object",
        ),
        (
            STARTING,
            {"reason": "FailedCreatePodSandBox", "message": 'no runtime for "nvidia"'},
            "node gpu-1: found FailedCreatePodSandBox, reported by a component without a name: “",
            "configure this runtime",
        ),
        (
            {"waiting": {"reason": "ErrImagePull", "message": "unauthorized"}},
            {},
            "node gpu-1: found ErrImagePull: unauthorized",
            "pull secret",
        ),
    ],
)
def test_an_installer_that_waits_is_explained_by_events_and_statuses(
    monkeypatch: pytest.MonkeyPatch, status: Json, event: Json, said: str, cure: str
) -> None:
    events = ({**event, "involvedObject": {"uid": "u"}},) if event else ()
    with pytest.raises(ClusterError) as caught:
        waited(monkeypatch, pod({"name": "install", "state": status}), events=events)
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith(said)
    assert cure in first
    assert last.startswith("DaemonSet gpu-driver/installer: found 0 of 1 pods ready")


def test_an_installer_on_a_host_with_a_driver_fails_before_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel."
    ended = {"terminated": {"exitCode": 1, "message": f"Installing\n{message}"}}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    with pytest.raises(ClusterError, match=r"appears to already be loaded.*nvidia-uninstall"):
        waited(
            monkeypatch,
            pod({"name": "install", "state": state, "lastState": ended, "restartCount": 1}),
            seconds=600,
        )


def test_installers_that_cannot_be_created_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {
        "reason": "FailedCreate",
        "message": "Error creating: pods is forbidden: exceeded quota: q",
        "metadata": {"namespace": "gpu-driver"},
        "involvedObject": {
            "kind": "DaemonSet",
            "name": "installer",
            "namespace": "gpu-driver",
            "uid": "u-installer",
        },
    }
    with pytest.raises(ClusterError, match=r"namespace gpu-driver: found .*exceeded quota: q"):
        waited(monkeypatch, events=(refused,))


def test_ready_installers_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, ready=1) == {"ready": 1}
