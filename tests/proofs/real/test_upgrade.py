"""Unit tests of the checks that `lab.real.operator.upgrade` makes on a driver upgrade."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_cluster.kubernetes.resources import UPGRADE
from gpu_cluster.nodes.inspect import CORDONED
from lab.real.operator import upgrade
from lab.real.operator.upgrade import FREE, JUDGES, OURS, STATES, Seen


def node(name: str, state: str, cordoned: bool, **notes: str) -> Any:
    mark = {CORDONED: "rollout"} if name == OURS else {}
    meta = {"name": name, "labels": {UPGRADE: state}, "annotations": {**mark, **notes}}
    return {"metadata": meta, "spec": {"unschedulable": True} if cordoned else {}}


def upgraded() -> Seen:
    """Return the states of two nodes during a driver upgrade; one node was cordoned before."""
    cordoned = dict.fromkeys(STATES[2:7], True)
    free = [node(FREE, state, cordoned.get(state, False)) for state in STATES]
    free.insert(-1, node(FREE, "uncordon-required", False))
    held = [node(OURS, state, True) for state in STATES if state != "uncordon-required"]
    before = {name: {UPGRADE, CORDONED} for name in (FREE, OURS)}
    return Seen({FREE: free, OURS: held}, before)


def test_an_upgrade_as_the_real_operator_does_it_holds() -> None:
    assert {name: judge(upgraded()) for name, judge in JUDGES.items()} == dict.fromkeys(JUDGES, "")


def _swap(seen: Seen) -> None:
    seen.nodes[FREE][1:3] = reversed(seen.nodes[FREE][1:3])


def _uncordon_early(seen: Seen) -> None:
    seen.nodes[FREE][4]["spec"] = {}


def _uncordon_ours(seen: Seen) -> None:
    seen.nodes[OURS].insert(-1, node(OURS, "uncordon-required", True))


def _hide(seen: Seen) -> None:
    seen.nodes[FREE][3]["metadata"]["labels"] = {}


def _free_ours(seen: Seen) -> None:
    seen.nodes[OURS][-1]["spec"] = {}


def _write(seen: Seen) -> None:
    seen.nodes[FREE][0]["metadata"]["labels"]["example.com/new"] = "1"


@pytest.mark.parametrize(
    ("name", "spoil"),
    list(
        zip(
            JUDGES,
            (_swap, _uncordon_early, _uncordon_ours, _hide, _free_ours, _write),
            strict=True,
        )
    ),
)
def test_each_judge_sees_what_it_is_for(name: str, spoil: Callable[[Seen], None]) -> None:
    seen = upgraded()
    spoil(seen)
    assert JUDGES[name](seen)


def test_its_policy_lets_two_nodes_go_at_once() -> None:
    # The operator counts a cordoned node as unavailable. With a limit of one unavailable node, the
    # other node would have to wait.
    assert upgrade.SETTING.sections["gpuOperator"]["upgrade"]["maxUnavailable"] == 2
