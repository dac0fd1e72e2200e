"""Unit tests of how many requests the validation of a node takes, and of what they prove."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from gpu_cluster.desired.pod_template import SCRIPT
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import gpu_holders, record, startup_taint
from gpu_cluster.validation.container_result import read_result
from gpu_cluster.validation.job import ObservedJob
from gpu_cluster.validation.node import NodeCheck
from gpu_cluster.validation.validation import _Run
from gpu_cluster_lab.simulator import logs, marks
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
GPUS = 8
UUIDS = [f"GPU-{index:08d}-0000-4000-8000-000000000000" for index in range(GPUS)]
PASSED = "Test PASSED"


def listing(uuid: str) -> str:
    return f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})"


@dataclass
class Answers:
    """Fake API client that records each request."""

    pods: list[Json] = field(default_factory=list)
    log: str = ""
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    async def request(self, method: str, url: str, **sent: Any) -> Any:
        self.asked.append(f"{method} {url.rpartition('/')[2]}")
        self.bodies.append(sent.get("body"))
        if url.endswith("/log"):
            return self.log
        return {"metadata": {"uid": "job"}}

    async def list(self, url: str, **query: str) -> list[Json]:
        self.asked.append(f"LIST {url}")
        name = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        return [pod for pod in self.pods if name in ("", pod["spec"]["nodeName"])]

    async def pages(self, url: str, **query: str) -> Any:
        yield await self.list(url, **query)


def node(name: str) -> Json:
    counts = {"nvidia.com/gpu": str(GPUS)}
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "7", "annotations": {"a": "b"}},
        "spec": {"taints": [startup_taint.TAINT]},
        "status": {"allocatable": counts, "capacity": counts},
    }


def holder(name: str) -> Json:
    container = {"name": "x", "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}}}
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": f"held-{name}"},
        "spec": {"nodeName": name, "containers": [container]},
        "status": {"phase": "Running"},
    }


def checks(client: Answers, number: int = 1, **validation: Any) -> list[NodeCheck]:
    names = [f"gpu-{index}" for index in range(1, number + 1)]
    pool = {"name": "a100", "nodes": names, "gpusPerNode": GPUS}
    desired = resolve(load(stack_document(pools=[pool], validation=validation)), "test")
    made = cast(Client, client)
    return [NodeCheck(made, desired.validation.pools[0], node(name), {}) for name in names]


def ended(check: NodeCheck, message: str = PASSED) -> ObservedJob:
    """Return a Job whose pod has ended, each container with its device in its message."""
    names = [f"gpu-{index}" for index in range(GPUS)]
    statuses = [
        {
            "name": name,
            "state": {"terminated": {"exitCode": 0, "message": f"{listing(uuid)}\n{message}\n"}},
        }
        for name, uuid in zip(names, UUIDS, strict=True)
    ]
    pod = {
        "metadata": {"name": "validate", "uid": "pod"},
        "spec": {"nodeName": check.name, "containers": [{"name": name} for name in names]},
        "status": {"phase": "Succeeded", "containerStatuses": statuses},
    }
    return ObservedJob(job={"metadata": {"uid": "job"}, "spec": {}}, pods=(pod,))


def validated(client: Answers, check: NodeCheck, message: str = PASSED) -> list[str]:
    """Return the requests of a node's validation, from its Job to its record."""
    asyncio.run(check.step(ObservedJob()))
    asyncio.run(check.step(ended(check, message)))
    return client.asked


def test_eight_gpus_cost_four_requests_and_no_log() -> None:
    client = Answers()
    (check,) = checks(client)
    assert validated(client, check) == ["LIST pods", "POST jobs", "DELETE validate-gpu-1",
                                        "PATCH gpu-1"]  # fmt: skip
    assert (check.done, check.problem, list(check.devices)) == (True, "", UUIDS)


def test_one_request_removes_the_startup_taint_and_writes_the_record() -> None:
    client = Answers()
    (check,) = checks(client)
    validated(client, check)
    patch = {each["path"]: each for each in client.bodies[-1]}
    assert patch["/metadata/resourceVersion"] == {
        "op": "test", "path": "/metadata/resourceVersion", "value": "7",
    }  # fmt: skip
    assert patch["/spec/taints"]["op"] == "remove"
    written = patch["/metadata/annotations"]["value"]
    kept = record.decode({"metadata": {"annotations": written}})
    assert kept is not None
    assert (list(kept.devices), written["a"]) == (UUIDS, "b")


def test_a_message_that_was_cut_or_shows_no_pass_is_not_trusted_and_the_log_is_read() -> None:
    client = Answers(log=f"{listing(UUIDS[0])}\nno device (error 802)")
    (check,) = checks(client)
    asked = validated(client, check, message="")
    assert asked.count("GET log") == GPUS
    assert "error 802" in check.problem


def test_more_nodes_than_a_few_are_looked_at_by_one_list() -> None:
    client = Answers(pods=[holder("gpu-2")])
    run = _Run(cast(Client, client), [checks(client)[0].pool])
    run.checks = checks(client, gpu_holders.SINGLE + 1)
    asyncio.run(run.find_free_nodes())
    assert client.asked == ["LIST pods"]
    free, held = run.checks[0], run.checks[1]
    asyncio.run(free.step(ObservedJob()))
    assert client.asked == ["LIST pods", "POST jobs"]
    asyncio.run(held.step(ObservedJob()))
    assert client.asked[2] == "LIST pods"
    assert "team/train" in held.waits or held.done


@pytest.mark.parametrize(
    ("busy", "problem"), [("fail", "GPUs in use"), ("wait", ""), ("defer", "")]
)
def test_gpus_taken_after_the_list_are_found_by_the_schedulers_refusal(
    busy: str, problem: str
) -> None:
    client = Answers(pods=[holder("gpu-1")])
    (check,) = checks(client, busy=busy)
    check.is_free = True
    asyncio.run(check.step(ObservedJob()))
    assert client.asked == ["POST jobs"]
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod: Json = {
        "metadata": {"name": "validate", "uid": "pod"},
        "spec": {"containers": [{"name": "gpu-0"}]},
        "status": {"phase": "Pending"},
    }
    waiting = ObservedJob(job={"metadata": {"uid": "job"}, "spec": {}}, pods=(pod,))
    asyncio.run(check.step(waiting))
    assert client.asked == ["POST jobs"], "the scheduler has not looked at the pod yet"
    pod["status"]["conditions"] = [refused]
    asyncio.run(check.step(waiting))
    if busy == "wait":
        assert client.asked == ["POST jobs"]
        return
    assert "DELETE validate-gpu-1" in client.asked
    asyncio.run(check.step(ObservedJob()))
    assert check.done
    assert problem in check.problem


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(("run", "code"), [(logs.PASSED, 0), (logs.FAILED, 1), (logs.SILENT, 0)])
def test_the_script_reports_what_the_simulator_reports(
    tmp_path: Path, shell: str, run: str, code: int
) -> None:
    lines = (listing(UUIDS[0]), "  MIG 1g.10gb     Device  0: (UUID: MIG-0-1)", *logs.RUNS[run])
    written = {"nvidia-smi": lines[:2], "vectorAdd": lines[2:]}
    for name, output in written.items():
        text = "".join(f"echo '{line}'\n" for line in output)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}exit {code * (name == 'vectorAdd')}\n")
        (tmp_path / name).chmod(0o755)
    message = tmp_path / "message"
    script = SCRIPT.replace(logs.TERMINATION_LOG, str(message))
    done = subprocess.run(
        [shell, "-c", script, "validate", "vectorAdd"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, tuple(done.stdout.splitlines())) == (code, lines)
    simulated = logs.termination_message(["sh", "-c", SCRIPT], lines, 1)
    assert f"{marks.SIMULATED}\n{message.read_text()}" == simulated
    status = {"name": "gpu-0", "state": {"terminated": {"exitCode": code}}}
    assert (not read_result(status, simulated).problem) is (run == logs.PASSED)


def test_a_program_that_ends_by_a_signal_keeps_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{listing(UUIDS[0])}'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    script = SCRIPT.replace(logs.TERMINATION_LOG, "/nowhere/message")
    done = subprocess.run(
        ["sh", "-c", script, "validate", "sh", "-c", "echo half; kill -9 $$"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + 9
    assert done.stdout.splitlines()[:2] == [listing(UUIDS[0]), "half"]


def test_fifty_six_instances_fit_their_messages() -> None:
    lines = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-4000-8000-000000000000)",
        "  MIG 1g.10gb     Device  0: (UUID: MIG-00000000-0000-4000-8000-000000000000)",
        *logs.RUNS[logs.PASSED],
    )
    status = {"name": "gpu-0", "state": {"terminated": {"exitCode": 0}}}
    for containers, passes in ((56, True), (128, False)):
        text = logs.termination_message(["sh", "-c", SCRIPT], lines, containers)
        assert (not read_result(status, text).problem) is passes
