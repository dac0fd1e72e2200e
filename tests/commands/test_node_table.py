"""The table at the end of a run: one row for each of up to 20 nodes, else for each pool."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import up
from gpu_cluster.commands.node_table import MOST, proof, table
from gpu_cluster.commands.stack import Stack
from gpu_cluster.loading.loader import load

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def stack(nodes: int) -> Stack:
    pool = {"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}
    document = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    made = Stack("dev")
    # Set the cached property `cluster`, so that no stack file is read.
    vars(made)["cluster"] = load({**document, "pools": [pool]})
    return made


def row(number: int, **more: Any) -> dict[str, Any]:
    plain = {"name": f"gpu-{number}", "pool": "a100", "declared": 8, "deferred": 0, "since": ""}
    offered = {"nvidia.com/gpu": 8}
    return {**plain, "offered": offered, "simulated": 8, "computed": 0, **more}


def live(number: int, **labels: str) -> dict[str, Any]:
    marked = {"nvidia.com/gpu": "true", **labels}
    return {"metadata": {"name": f"gpu-{number}", "labels": marked}, "spec": {"taints": [TAINT]}}


def rows(nodes: list[dict[str, Any]], objects: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    by_name = {manifest["metadata"]["name"]: manifest for manifest in objects}
    shown = table(stack(len(nodes)), nodes, by_name)
    columns = [[str(cell) for cell in column.cells] for column in shown.columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("count", [1, MOST])
def test_few_nodes_have_a_row_each(count: int) -> None:
    numbers = range(1, count + 1)
    table = rows([row(number) for number in numbers], [live(number) for number in numbers])
    assert [cells[0] for cells in table] == [f"gpu-{number}" for number in numbers]
    assert table[0][3:] == ("nvidia.com/gpu=true", "nvidia.com/gpu=present:NoSchedule")


def test_eight_hundred_nodes_are_one_row_and_one_that_lacks_a_gpu_is_another() -> None:
    numbers = range(1, 801)
    nodes = [row(number, simulated=7 if number == 5 else 8) for number in numbers]
    table = rows(nodes, [live(number) for number in numbers])
    assert [cells[0] for cells in table] == ["799", "gpu-5"]
    assert table[0][2].splitlines()[:2] == ["6392 declared", "6392 offered (nvidia.com/gpu)"]
    assert "7 simulated" in table[1][2]


def test_a_label_that_only_some_have_is_counted() -> None:
    numbers = range(1, 31)
    objects = [live(number) for number in numbers]
    objects[0]["metadata"]["labels"] = {}
    (only,) = rows([row(number) for number in numbers], objects)
    assert only[3] == "nvidia.com/gpu=true (on 29)"


def test_what_was_deferred_and_since_when_is_shown() -> None:
    text = proof([row(1, simulated=6, deferred=2, since="2026-01-01T00:00:00Z")])
    assert text.splitlines()[2:] == ["6 simulated", "2 deferred", "since 2026-01-01T00:00:00Z"]


@pytest.mark.parametrize("has_kubectl", [True, False])
def test_next_lines_bring_their_environment_and_name_no_missing_program(
    monkeypatch: pytest.MonkeyPatch, has_kubectl: bool
) -> None:
    programs = {"gpu-cluster", "kubectl"} if has_kubectl else {"gpu-cluster"}
    monkeypatch.setattr(
        "shutil.which", lambda name, path=None: f"/bin/{name}" if name in programs else None
    )
    lines = up.shown_next(stack(1), ["kubectl get nodes", "pulumi preview"])
    assert lines[-1] == '(eval "$(gpu-cluster env)" && pulumi preview)'
    assert len(lines) == (2 if has_kubectl else 1)
    other = up.shown_next(replace(stack(1), name="lab"), ["pulumi preview"])
    assert other == ['(eval "$(gpu-cluster env --stack lab)" && pulumi preview)']
    programs.clear()
    (line,) = up.shown_next(stack(1), ["pulumi preview"])
    path = os.path.relpath(Path(sys.prefix, "bin", "gpu-cluster"))
    assert line == f'(eval "$({path} env)" && pulumi preview)'
