"""Attack: the log of a forged validation pod must not count as proof of working GPUs.

The test replaces the API server's responses. A pod counts if it is the only one that the run's own
Job owns, by the Job's UID.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import POOL
from gpu_cluster.validation.job import job_name
from gpu_cluster.validation.node import NodeCheck
from gpu_cluster.validation.pod import NODE
from gpu_cluster.validation.validation import _Run
from tests.proofs.attacks.samples import cluster

Json = dict[str, Any]
DOCUMENT = resolve(cluster(), "test").validation.pools[0]
NAME = cluster().pools[0].node_names[0]
JOB = {"metadata": {"name": job_name(NAME), "uid": "ours"}, "spec": {}}


class Api:
    """Fake API client that lists one Job and pods, and records the requests."""

    def __init__(self, *pods: Json) -> None:
        self.pods = pods
        self.asked: list[tuple[str, str]] = []

    async def list(self, url: str, **_: Any) -> list[Json]:
        return [JOB] if url.endswith("/jobs") else list(self.pods)

    async def request(self, method: str, url: str, **_: Any) -> Any:
        self.asked.append((method, url.rpartition("/")[2]))
        return ""


def passed(uid: str, owner: str) -> Json:
    """Return a pod all of whose containers have exited with status 0."""
    ended = {"name": "gpu-0", "state": {"terminated": {"exitCode": 0}}}
    return {
        "metadata": {
            "name": job_name(NAME),
            "uid": uid,
            "labels": {POOL: DOCUMENT.pool, "batch.kubernetes.io/job-name": job_name(NAME)},
            "annotations": {NODE: NAME},
            "ownerReferences": [{"kind": "Job", "uid": owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "gpu-0"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [ended]},
    }


def checked(api: Api, uid: str = "ours") -> NodeCheck:
    """Return the check of a node whose Job was created, after it has looked at the Job once."""
    run = _Run(api, [DOCUMENT])  # type: ignore[arg-type]
    node = {"metadata": {"name": NAME}, "status": {}}
    check = NodeCheck(api, DOCUMENT, node, {})  # type: ignore[arg-type]
    check.asked, check.uid = {"nvidia.com/gpu": 1}, uid
    asyncio.run(check.step(asyncio.run(run.jobs())[job_name(NAME)]))
    return check


def test_a_pod_of_the_jobs_name_and_labels_is_not_its_validation() -> None:
    api = Api(passed("forged", "theirs"))
    check = checked(api)
    assert (api.asked, check.done, check.devices, check.pod) == ([], False, {}, None)


def test_a_second_pod_that_claims_to_be_the_jobs_makes_none_of_them_count() -> None:
    api = Api(passed("first", "ours"), passed("forged", "ours"))
    check = checked(api)
    assert api.asked == [("DELETE", job_name(NAME))]
    assert (check.done, check.devices, check.asked) == (False, {}, {})


def test_a_job_under_the_name_of_a_validation_proves_nothing() -> None:
    api = Api(passed("forged", "ours"))
    check = checked(api, uid="another")
    assert (api.asked, check.done, check.devices, check.asked) == ([], False, {}, {})
