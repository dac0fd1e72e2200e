"""Unit tests of how long a validation waits, and of how many Jobs exist at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.loading.loader import load
from gpu_cluster.validation import validation
from gpu_cluster.validation.job import ObservedJob
from gpu_cluster.validation.node import NodeCheck
from tests.fixtures.documents import stack_document

LIMIT = 60
NONE = cast(Client, None)
POOL = resolve(
    load(stack_document(validation={"timeoutSeconds": LIMIT})),
    "test",
).validation.pools[0]


class Clock:
    """A clock that only a sleeping program moves: each pause takes 20 s."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, _: float) -> None:
        self.now += 20


@dataclass
class Simulated(NodeCheck):
    """A node whose Job takes some steps; a node with `busy` gets no Job."""

    steps: int = 2
    busy: bool = False
    given_up: bool = False

    async def step(self, observed: ObservedJob) -> None:
        del observed
        if self.busy:
            self.waits = "0 of 8 devices free"
        elif not self.asked:
            self.asked, self.since = {"nvidia.com/gpu": 8}, validation.time.monotonic()
        elif self.steps:
            self.steps -= 1
        else:
            self.asked, self.done = {}, True

    async def explained(self) -> str:
        return self.waits

    async def give_up(self) -> None:
        self.done = self.given_up = True


class Observed(validation._Run):
    """A run that counts the Jobs that exist at the same time."""

    most = 0

    async def nodes(self) -> list[Any]:
        return [check.node for check in self.checks]

    async def jobs(self) -> dict[str, ObservedJob]:
        self.most = max(self.most, sum(bool(check.asked) for check in self.checks))
        return {}


def waited(monkeypatch: pytest.MonkeyPatch, checks: list[Simulated]) -> tuple[Observed, float]:
    """Wait for nodes; return the run and the seconds that it took on the clock."""
    clock = Clock()
    monkeypatch.setattr(validation, "time", clock)
    monkeypatch.setattr(validation.asyncio, "sleep", clock.sleep)
    run = Observed(NONE, [POOL])
    run.checks = list(checks)
    asyncio.run(run.wait())
    return run, clock.now - 1000


def simulated(number: int, **settings: Any) -> list[Simulated]:
    nodes = [{"metadata": {"name": f"gpu-{index}", "annotations": {}}} for index in range(number)]
    return [Simulated(NONE, POOL, node, {}, **settings) for node in nodes]


def test_a_large_pool_takes_longer_than_the_limit_as_long_as_nodes_make_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = simulated(1000)
    _, seconds = waited(monkeypatch, checks)
    assert seconds > 5 * LIMIT
    assert not any(check.given_up for check in checks)


def test_the_wait_ends_when_no_node_has_made_progress_for_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = [*simulated(3), *simulated(1, busy=True), *simulated(1, steps=1000)]
    _, seconds = waited(monkeypatch, checks)
    assert [check.given_up for check in checks] == [False, False, False, True, True]
    assert seconds < 4 * LIMIT


def test_a_bounded_number_of_jobs_exists_and_a_busy_node_takes_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = [*simulated(300, busy=True), *simulated(300)]
    run, _ = waited(monkeypatch, checks)
    assert run.most <= validation.AT_ONCE
    assert [check.given_up for check in checks] == [True] * 300 + [False] * 300
