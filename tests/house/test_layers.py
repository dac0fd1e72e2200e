"""Tests of the layers contract in pyproject.toml.

All modules must obey the contract, also with imports at run time, and
docs/explanation/architecture.md must describe the contract.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from lab.house import imports
from lab.house.imports import Edge, Layers
from lab.house.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"
CONTRACTS = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]
PROGRAM = "__main__"
PACKAGES = {"gpu_cluster", "gpu_cluster_lab"}
"""The packages themselves, which hold others; gpu_cluster exports the components."""

FOREIGN = {
    # The benchmark of an empty stack runs a file that belongs to the same layer.
    "lab.benchmarks.empty_stack.__main__",
    # This module imports a user's own rules from a folder that the settings name.
    "gpu_rules.rules.own_rules",
    "gpu_cluster.commands.command_line",  # The table of verbs names the module of each verb.
    # The language host runs the Pulumi program of a user.
    "gpu_cluster_lab.toolchain.plugins.language_host.child",
    "gpu_cluster_lab.toolchain.plugins.language_host.program",
    "gpu_cluster_lab.toolchain.plugins.__main__",  # Runs a plugin of the folder by its name.
}
"""Modules that run code whose name is not in their text."""


def layers() -> Layers:
    found = Layers.read(PROJECT)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def edges(ours: Tree) -> list[Edge]:
    return imports.edges(ours)


def test_no_import_runs_up_the_layers_not_even_at_run_time(edges: list[Edge]) -> None:
    assert {edge.run_time for edge in edges} == {True, False}
    assert layers().upward(edges) == []


def test_no_modules_import_each_other(edges: list[Edge]) -> None:
    assert imports.circles(edges) == []


def test_every_module_stands_in_a_layer(ours: Tree, edges: list[Edge]) -> None:
    contract = layers()
    assert contract.outside(ours.modules, CONTRACTS["root_packages"]) == []
    homeless = {name for edge in edges for name in (edge.source, edge.target)}
    assert {name for name in homeless if contract.place(name) is None} == {PROGRAM, *PACKAGES}


def test_the_program_stands_above_all_and_needs_what_is_shipped_alone(edges: list[Edge]) -> None:
    assert PROGRAM not in {edge.target for edge in edges}
    used = {edge.target.partition(".")[0] for edge in edges if edge.source == PROGRAM}
    assert used == {"gpu_cluster"}


def test_the_text_tells_what_is_imported_at_run_time(ours: Tree) -> None:
    assert {place.partition(":")[0] for place in imports.untold(ours)} <= FOREIGN


def test_no_import_is_left_out_of_a_contract() -> None:
    assert "exclude_type_checking_imports" not in CONTRACTS
    kinds = [contract["type"] for contract in CONTRACTS["contracts"]]
    assert kinds.count("layers") == 1
    assert [one["name"] for one in CONTRACTS["contracts"] if "ignore_imports" in one] == []


@pytest.mark.parametrize(
    ("text", "run_time"),
    [
        ("from gpu_cluster import cluster", False),
        ("def read():\n    from gpu_cluster.cluster import GpuCluster", False),
        ("if TYPE_CHECKING:\n    import gpu_cluster.cluster", False),
        ("from ...cluster import GpuCluster", False),
        ("import importlib\nimportlib.import_module('gpu_cluster.cluster')", True),
        ("def read(name):\n    import_module(f'gpu_cluster.{name}')", True),
        ("PROGRAMS = {'x': 'gpu_cluster.cluster'}\nrunpy.run_module(PROGRAMS['x'])", True),
        ("import_module('...cluster', __package__)", True),
        ("importlib.util.find_spec(name='gpu_cluster.cluster')", True),
    ],
)
def test_an_import_that_runs_up_is_found(
    grow: Callable[..., Tree], text: str, run_time: bool
) -> None:
    tree = grow(cluster="class GpuCluster: ...", settings__in__hosts__in__host=text)
    (found,) = layers().upward(imports.edges(tree))
    assert (found.source, found.target) == (
        "gpu_cluster.settings.hosts.host",
        "gpu_cluster.cluster",
    )
    assert found.run_time == run_time


def test_the_page_of_architecture_has_the_contract_as_its_table() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([a-z._]+)` \| \S.* \|$", page, re.MULTILINE)
    table = [tuple(name for _, name in group) for _, group in groupby(rows, lambda row: row[0])]
    contract = layers()
    assert table == list(contract.groups)
    together = [group for i, group in enumerate(table) if i not in contract.independent]
    known = {name.partition(".")[0] for group in together if len(group) > 1 for name in group}
    # Only modules of `gpu_rules` may have the same layer number and import each other, as
    # docs/explanation/architecture.md says.
    assert known == {"gpu_rules"}
