"""Objects of the platform's chart that admission refuses are found by a dry run before a run."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pulumi
import pytest

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.release import admitted
from tests.fixtures.api import client
from tests.fixtures.documents import stack_document
from tests.mocks import Recorder, declare, inspected

POLICY = "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no host paths"
RBAC = 'User "ci" cannot create resource "daemonsets" in API group "apps"'
SPEC = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}
PLUGIN = {"kind": "DaemonSet", "metadata": {"name": "plugin"}, "spec": SPEC}
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "config"}}


def refusals(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[int, str]]
) -> tuple[list[str], list[httpx.Request]]:
    """Return the faults, and the requests that were sent.

    Args:
        answers: Status and message by the last part of the path; others are accepted.
    """
    asked: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        code, message = answers.get(request.url.path.rpartition("/")[2], (201, ""))
        return httpx.Response(code, json={"message": message, "reason": "Forbidden"})

    @asynccontextmanager
    async def connect(_: str) -> Any:
        yield client(serve)

    monkeypatch.setattr(admitted, "connect", connect)
    return asyncio.run(admitted.refusals("here", "gpu", [PLUGIN, CONFIG])), asked


def test_each_request_is_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = refusals(monkeypatch, {})
    assert found == []
    assert [request.url.path for request in asked] == ["/apis/apps/v1/namespaces/gpu/daemonsets"]
    assert all(request.url.params["dryRun"] == "All" for request in asked)


@pytest.mark.parametrize("message", [POLICY, 'admission webhook "w" denied the request: no'])
def test_an_object_that_a_policy_refuses_is_named_with_the_policys_words(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    (fault,), _ = refusals(monkeypatch, {"daemonsets": (422, message)})
    assert fault.startswith("DaemonSet gpu/plugin: found an object that admission rejects: ")
    assert message in fault


@pytest.mark.parametrize(
    "answer",
    [
        (403, RBAC),
        (404, 'namespaces "gpu" not found'),
        (409, 'daemonsets.apps "plugin" already exists'),
        (400, 'admission webhook "w" does not support dry run'),
    ],
)
def test_what_says_nothing_about_admission_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str]
) -> None:
    assert refusals(monkeypatch, {"daemonsets": answer})[0] == []


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("preview", [True, False])
def test_a_run_that_admission_refuses_declares_nothing_and_a_preview_does_not_ask(
    monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    async def refuse(*_: object) -> list[str]:
        return ["DaemonSet gpu/plugin: found admission refuses it"]

    monkeypatch.setattr("gpu_cluster.cluster.refusals", refuse)
    recorder = Recorder()

    def program() -> None:
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=stack_document()))

    with inspected(Difference()):
        if preview:
            declare(program, preview=True, recorder=recorder)
        else:
            with pytest.raises(pulumi.RunError, match="admission refuses it"):
                declare(program, preview=False, recorder=recorder)
    assert bool(recorder.of("gpucluster:index:GpuPlatform")) is preview
