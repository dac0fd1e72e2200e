"""Unit tests of the order in a rollout: control plane, canary, batches; a failure stops it."""

from __future__ import annotations

import asyncio

import pytest

from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.rollout.waves import in_waves
from gpu_rules.faults import Fault


class Changing:
    """Fake changes of nodes that record which of them ran at the same time."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.now: set[str] = set()
        self.seen: list[frozenset[str]] = []
        self.ended: list[str] = []

    async def change(self, name: str) -> None:
        self.now.add(name)
        self.seen.append(frozenset(self.now))
        for _ in range(3):
            await asyncio.sleep(0)
        self.now.remove(name)
        if name in self.fails:
            raise ClusterError(Fault(name, "a failure", "none", "fix it"))
        self.ended.append(name)


def run(changing: Changing, alone: list[str], rest: list[str], at_once: int) -> None:
    asyncio.run(in_waves(alone, rest, at_once, changing.change, str))


@pytest.mark.parametrize("at_once", [1, 2, 5, 100])
def test_the_control_plane_and_the_canary_go_alone(at_once: int) -> None:
    changing, rest = Changing(), [f"w{n}" for n in range(9)]
    run(changing, ["c1", "c2"], rest, at_once)
    assert changing.seen[:3] == [{"c1"}, {"c2"}, {"w0"}]
    assert max(map(len, changing.seen)) == min(at_once, 8)
    assert sorted(changing.ended) == sorted(["c1", "c2", *rest])


@pytest.mark.parametrize("first", ["c1", "w0"])
def test_after_a_canary_that_fails_nothing_is_begun(first: str) -> None:
    changing = Changing(first)
    alone = ["c1"] if first == "c1" else []
    with pytest.raises(ClusterError) as raised:
        run(changing, alone, ["w0", "w1", "w2"], 3)
    assert changing.seen == [{first}]
    left = "w0, w1, w2" if alone else "w1, w2"
    assert f"rollout: {left}: found not started, because an earlier node failed" in str(
        raised.value
    )


def test_after_a_failure_what_is_under_way_ends_and_nothing_else_is_begun() -> None:
    changing = Changing("w1")
    with pytest.raises(ClusterError):
        run(changing, [], [f"w{n}" for n in range(9)], 3)
    assert changing.ended == ["w0", "w2", "w3"]


def test_nothing_to_change_is_nothing_done() -> None:
    run(Changing(), [], [], 3)
