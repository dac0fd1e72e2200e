"""Attack: the log of a forged validation pod must not count as proof of working GPUs.

The test replaces the API server's responses. Whether a pod is genuine is decided by its creator and
creation time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from components.desired.resolve import resolve
from components.desired.validation import POOL
from components.validation.node import NodeCheck
from components.validation.pod import NODE, pod_name
from components.validation.validation import _Run
from tests.proofs.attacks.samples import cluster

Json = dict[str, Any]
DOCUMENT = resolve(cluster(), "test").validation.pools[0]
NAME = cluster().pools[0].node_names[0]


class Api:
    """Fake API client that returns the given pods and records all requests."""

    def __init__(self, *pods: Json) -> None:
        self.pods = pods
        self.asked: list[tuple[str, str]] = []

    async def list(self, url: str, **_: Any) -> list[Json]:
        return list(self.pods)

    async def request(self, method: str, url: str, **_: Any) -> Any:
        self.asked.append((method, url.rpartition("/")[2]))
        return {"metadata": {"uid": "ours"}}


def passed(name: str, uid: str) -> Json:
    """Return a pod all of whose containers have exited with status 0."""
    ended = {"name": "gpu-0", "state": {"terminated": {"exitCode": 0}}}
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "labels": {POOL: DOCUMENT.pool},
            "annotations": {NODE: NAME},
        },
        "spec": {"containers": [{"name": "gpu-0"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [ended]},
    }


def test_a_pod_that_names_a_node_is_not_its_validation() -> None:
    ours, forged = passed(pod_name(NAME), "ours"), passed("forged", "theirs")
    run = _Run(Api(ours, forged), DOCUMENT)  # type: ignore[arg-type]
    assert asyncio.run(run.pods())[pod_name(NAME)] is ours


def test_a_pod_under_the_name_of_a_validation_proves_nothing() -> None:
    api = Api()
    node = {"metadata": {"name": NAME}, "status": {}}
    check = NodeCheck(api, DOCUMENT, node, {})  # type: ignore[arg-type]
    check.asked, check.uid = {"nvidia.com/gpu": 1}, "ours"
    forged = passed(pod_name(NAME), "theirs")
    asyncio.run(check.step(forged))
    assert (api.asked, check.done, check.devices) == ([], False, {})
    asyncio.run(check.step(forged))
    assert api.asked == [("DELETE", pod_name(NAME))]
