"""Unit tests of the validation of several pools by one Command, and of an earlier version's."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolsValidation, PoolValidation
from gpu_cluster.kubernetes.api import ClusterError, Refused
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import record
from gpu_cluster.requests import read, write
from gpu_cluster.validation import validation, xid
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
GPUS = 8


def pools(*names: str) -> tuple[PoolValidation, ...]:
    """Return pools of two nodes each."""
    declared = [{"name": name, "nodes": [f"{name}-[1-2]"], "gpusPerNode": GPUS} for name in names]
    return resolve(load(stack_document(pools=declared)), "test").validation.pools


def request(*of_pools: PoolValidation) -> PoolsValidation:
    return PoolsValidation(context="c", pools=of_pools)


@dataclass
class Fake:
    """A fake API server with nodes, which refuses a JSON patch whose test fails.

    Source: kubernetes v1.34.4, pkg/endpoints/handlers/patch.go, applyJSPatch.
    """

    nodes: dict[str, Json]
    writes: list[str] = field(default_factory=list)

    async def pages(self, url: str, **_: str) -> AsyncIterator[list[Json]]:
        yield [copy.deepcopy(node) for node in self.nodes.values()] if url == "nodes" else []

    async def list(self, url: str, **_: str) -> list[Json]:
        return []

    async def request(self, method: str, url: str, body: Any = None, **_: Any) -> Json:
        self.writes.append(f"{method} {url}")
        if method == "POST":
            raise Refused("POST", 403, "Forbidden", "exceeded quota")
        annotations = self.nodes[url.partition("/")[2]]["metadata"]["annotations"]
        if isinstance(body, dict):
            value = body["metadata"]["annotations"][record.RECORD]
            annotations.pop(record.RECORD, None)
            assert value is None
        else:
            test, change = body
            if annotations.get(record.RECORD) != test["value"]:
                raise Refused("PATCH", 422, "Invalid", "the server rejected our request")
            annotations.pop(record.RECORD)
            if change["op"] == "replace":
                annotations[record.RECORD] = change["value"]
        return {}

    def record(self, name: str) -> record.ValidationRecord | None:
        return record.decode(self.nodes[name])


def node(name: str, pool: PoolValidation, **kept: Any) -> Json:
    """Return a node of the pool that a run has validated."""
    counts = {"nvidia.com/gpu": str(GPUS)}
    made: Json = {
        "metadata": {"name": name, "uid": name, "labels": {}, "annotations": {}},
        "spec": {},
        "status": {"allocatable": counts, "capacity": counts},
    }
    devices: dict[str, list[str]] = {f"GPU-{name}-{index}": [] for index in range(GPUS)}
    proof = record.ValidationRecord(
        facts=record.facts(made, pool, []), devices=devices, manager=pool.manager, **kept
    )
    made["metadata"]["annotations"][record.RECORD] = record.encode(proof)
    return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake({})

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Fake]:
        yield made

    async def nothing(*_: Any) -> dict[str, str]:
        return {}

    monkeypatch.setattr(validation, "connect", connect)
    monkeypatch.setattr(xid, "lines", nothing)
    return made


def test_each_node_of_the_result_has_its_pool(fake: Fake) -> None:
    declared = pools("a100", "l4")
    fake.nodes = {
        name: node(name, pool, stack="test") for pool in declared for name in pool.nodes or ()
    }
    result = asyncio.run(validation.validate(request(*declared)))
    assert [(each["name"], each["pool"]) for each in result["nodes"]] == [
        ("a100-1", "a100"),
        ("a100-2", "a100"),
        ("l4-1", "l4"),
        ("l4-2", "l4"),
    ]
    assert fake.writes == []


def test_the_faults_of_all_pools_are_told_together(fake: Fake) -> None:
    declared = pools("a100", "l4")
    fake.nodes = {
        name: node(name, pool, stack="test") for pool in declared for name in pool.nodes or ()
    }
    for name in ("a100-2", "l4-1"):
        del fake.nodes[name]["metadata"]["annotations"][record.RECORD]
    with pytest.raises(ClusterError) as error:
        asyncio.run(validation.validate(request(*declared)))
    assert [fault.place for fault in error.value.faults] == [
        "node a100-2",
        "pool a100",
        "node l4-1",
        "pool l4",
    ]


@pytest.mark.promise("A node's validation record survives an update of this program.")
def test_records_of_an_earlier_version_are_taken_over_and_survive_its_command(fake: Fake) -> None:
    (pool,) = pools("a100")
    fake.nodes = {name: node(name, pool) for name in pool.nodes or ()}
    before = {name: fake.record(name) for name in fake.nodes}
    earlier = read(PoolsValidation | PoolValidation, write(pool))
    assert earlier == pool
    asyncio.run(validation.validate(request(pool)))
    asyncio.run(validation.forget(earlier))
    for name, proof in before.items():
        assert proof is not None
        assert fake.record(name) == replace(proof, stack="test")
    asyncio.run(validation.forget(request(pool)))
    assert [fake.record(name) for name in fake.nodes] == [None, None]


def test_the_command_of_an_earlier_version_forgets_what_nobody_took_over(fake: Fake) -> None:
    (pool,) = pools("a100")
    fake.nodes = {name: node(name, pool) for name in pool.nodes or ()}
    asyncio.run(validation.forget(pool))
    assert [fake.record(name) for name in fake.nodes] == [None, None]


def test_a_node_that_left_all_pools_loses_its_record_and_one_of_another_stack_keeps_its(
    fake: Fake,
) -> None:
    first, second = pools("a100", "l4")
    fake.nodes = {
        name: node(name, pool, stack="test")
        for pool in (first, second)
        for name in pool.nodes or ()
    }
    fake.nodes["l4-2"] = node("l4-2", second, stack="test-2")
    asyncio.run(validation.validate(request(first)))
    assert [name for name in fake.nodes if fake.record(name)] == ["a100-1", "a100-2", "l4-2"]
