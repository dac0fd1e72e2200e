"""Which pods hold GPUs that no run has validated, and how many requests it takes to know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import TypeAdapter

from gpu_cluster import requests
from gpu_cluster.inspection.judgement import with_busy
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes import record
from gpu_cluster.nodes.gpu_holders import SINGLE
from gpu_cluster.validation.inspect import observe_pool
from tests.components.change.world import World, base, desired_of, pod

Json = dict[str, Any]


@dataclass
class Listing:
    """Fake API client that lists pods and ResourceClaims, and counts the requests."""

    pods: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    requests: int = 0

    async def list(self, path: str, base: str = "/api/v1", **query: str) -> list[Json]:
        self.requests += 1
        if path == "resourceclaims":
            return self.claims
        name = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        return [each for each in self.pods if not name or each["spec"]["nodeName"] == name]

    async def pages(self, path: str, **query: str) -> AsyncIterator[list[Json]]:
        yield await self.list(path, **query)


def cluster(nodes: int, platform: str) -> tuple[Json, World]:
    """Return settings and a cluster whose nodes were validated while a pod held two GPUs."""
    declared = {
        **base(), "hosts": [], "platform": platform,
        "pools": [{"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}],
    }  # fmt: skip
    world = World.of(declared)
    for node in world.nodes.values():
        kept = json.loads(node["metadata"]["annotations"][record.RECORD])
        node["metadata"]["annotations"][record.RECORD] = json.dumps(
            {**kept, "missing": 2, "holders": "earlier"}
        )
    return declared, world


@pytest.mark.parametrize(
    ("nodes", "platform", "requests"),
    [
        (2, "device-plugin", 2),
        (SINGLE + 1, "device-plugin", 1),
        (500, "device-plugin", 1),
        (2, "dra", 1),
        (500, "dra", 1),
    ],
)
def test_the_requests_for_holders_do_not_grow_with_the_cluster(
    nodes: int, platform: str, requests: int
) -> None:
    declared, world = cluster(nodes, platform)
    (pool,) = desired_of(declared).validation.pools
    result = {"driver": DRA_DRIVER, "pool": "gpu-2", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}}
    claim = {
        "metadata": {"namespace": "team-a", "name": "train", "uid": "u"},
        "status": {"allocation": allocation},
    }
    client = Listing([pod("train", "gpu-2", 8)], [claim])
    seen = asyncio.run(observe_pool(client, [*world.nodes.values()], pool, []))  # type: ignore[arg-type]
    assert client.requests == requests
    if platform == "device-plugin":
        assert list(seen.deferred) == ["gpu-2"]
        assert "2 GPUs not validated: held by team-a/train" in seen.deferred["gpu-2"]
        assert {finding.name for finding in seen.findings} == set(world.nodes) - {"gpu-2"}


def test_nothing_is_requested_where_all_gpus_were_validated() -> None:
    (pool,) = desired_of(base()).validation.pools
    client = Listing()
    seen = asyncio.run(observe_pool(client, [*World.of(base()).nodes.values()], pool, []))  # type: ignore[arg-type]
    assert (client.requests, seen.findings, seen.deferred) == (0, (), {})


def test_the_parser_of_a_record_is_made_once_and_not_for_each_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[type] = []

    class Counted(TypeAdapter[Any]):
        def __init__(self, kind: type) -> None:
            made.append(kind)
            super().__init__(kind)

    monkeypatch.setattr(requests, "TypeAdapter", Counted)
    requests._made.cache_clear()
    _, world = cluster(50, "device-plugin")
    assert all(record.decode(node) for node in world.nodes.values())
    assert made.count(record.ValidationRecord) == 1


@pytest.mark.promise(
    "With `validation.busy: fail` a run that would validate GPUs in use fails before it changes "
    "anything."
)
@pytest.mark.parametrize(("busy", "refused"), [("fail", ["gpu-1"]), ("defer", []), ("wait", [])])
def test_gpus_in_use_refuse_a_validation_that_would_fail(busy: str, refused: list[str]) -> None:
    declared = {**base(), "hosts": [], "validation": {"busy": busy}}
    world = World.of(declared)
    for name in ("gpu-1", "gpu-2"):
        world.nodes[name]["metadata"]["annotations"].clear()
    desired = desired_of(declared)
    (pool,) = desired.validation.pools
    listing: Any = Listing(pods=[pod("held", "gpu-1", 4), pod("other", "gpu-3", 4)])
    seen = asyncio.run(observe_pool(listing, [*world.nodes.values()], pool, []))
    assert list(seen.refused) == refused
    inspection = with_busy(world.inspected(desired), seen.refused)
    texts = [text for text in inspection.problems if "GPUs in use: team-a/held" in text]
    assert [text.partition(":")[0] for text in texts] == [f"node {name}" for name in refused]
