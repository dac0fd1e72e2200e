"""Pods that a preview inspects for losses, and the number of list requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu_cluster.change.document import Loss
from gpu_cluster.inspection import losses
from gpu_cluster.inspection.losses import LossesQuestion, NodeAtRisk
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.nodes.gpu_holders import SINGLE
from gpu_rules.faults import Fault
from tests.components.change.world import pod

Json = dict[str, Any]


@dataclass
class Listing:
    """Fake API client that lists pods and ResourceClaims, and records the requests."""

    pods: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    asked: list[tuple[str, Json]] = field(default_factory=list)

    async def __aenter__(self) -> Listing:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def list(self, path: str, base: str = "/api/v1", **query: str) -> list[Json]:
        self.asked.append((path, query))
        if path == "resourceclaims":
            return self.claims
        selector = query.get("fieldSelector", "")
        name = selector.removeprefix("spec.nodeName=")
        return [each for each in self.pods if not name or each["spec"]["nodeName"] == name]

    async def pages(self, path: str, **query: str) -> AsyncIterator[list[Json]]:
        yield await self.list(path, **query)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Listing:
    made = Listing()
    monkeypatch.setattr(losses, "connect", lambda context: made)
    return made


def seen(nodes: int, *, claims: bool = False) -> losses.LossesSeen:
    risks = {f"gpu-{number}": NodeAtRisk(gpus=0) for number in range(nodes)}
    asked = LossesQuestion(context="c", nodes=risks, claims=claims)
    return asyncio.run(losses.observe_losses(asked))


def test_few_nodes_are_asked_one_by_one_and_many_in_one_list(client: Listing) -> None:
    client.pods = [pod("a", "gpu-1", 1), pod("b", "elsewhere", 1)]
    for nodes, requests in ((0, 0), (2, 2), (SINGLE, SINGLE), (SINGLE + 1, 1), (1000, 1)):
        client.asked.clear()
        found = seen(nodes)
        assert len(client.asked) == requests
        assert [lost.pod.name for lost in found.losses] == (["a"] if nodes > 1 else [])


def test_claims_are_listed_only_where_a_driver_of_dra_is(client: Listing) -> None:
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}
    client.claims = [
        {
            "metadata": {"namespace": "team-a", "name": "claim"},
            "status": {
                "allocation": {"devices": {"results": [result, {**result, "device": "gpu-1"}]}},
                "reservedFor": [{"resource": "pods", "name": "train-0"}],
            },
        }
    ]
    assert seen(2).losses == ()
    assert ("resourceclaims", {}) not in client.asked
    (lost,) = seen(2, claims=True).losses
    assert (lost.node, lost.pod.name, lost.pod.gpus) == ("gpu-1", "train-0", 2)
    assert lost.loss is Loss.LOSES_GPU


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(context: str) -> Listing:
        raise ClusterError(Fault("cluster c", "no answer", "one", "look"))

    monkeypatch.setattr(losses, "connect", refuse)
    assert "cluster c: found no answer" in seen(1).unreachable
