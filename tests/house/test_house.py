"""Tests of the measurements of `make house`, on small trees with known results."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.house import __main__ as house
from lab.house import imports, whole
from lab.house.imports import Edge, Layers
from lab.house.tree import Tree

CONTRACT = """
[tool.importlinter]
root_packages = ["gpu_cluster"]

[[tool.importlinter.contracts]]
name = "Layers"
type = "layers"
layers = [{layers}]
"""


RUN_TIME = {
    "a name": 'import importlib\nimportlib.import_module("gpu_cluster.one")',
    "a name in part": (
        "import importlib\n"
        'def load(name): return importlib.import_module(f"gpu_cluster.{name}.platform")'
    ),
    "a table": (
        "import runpy\n"
        'PROGRAMS = {"two": "gpu_cluster.two"}\n'
        "def run(name): runpy.run_module(PROGRAMS[name])"
    ),
    "a relative name": 'import importlib\nimportlib.import_module(".one", __package__)',
    "a keyword": 'import runpy\nrunpy.run_module(mod_name="gpu_cluster.one")',
    "another name": 'from importlib import import_module as load\nload("gpu_cluster.one")',
    "__import__": '__import__("gpu_cluster.one")',
    "a search": (
        "import importlib, pkgutil, re\n"
        '_NAME = re.compile(r".*\\.on[a-z]")\n'
        "for info in pkgutil.walk_packages([], 'components.'):\n"
        "    if _NAME.fullmatch(info.name): importlib.import_module(info.name)"
    ),
}


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("a name", "gpu_cluster.one"),
        ("a name in part", "gpu_cluster.dra.platform"),
        ("a table", "gpu_cluster.two"),
        ("a relative name", "gpu_cluster.one"),
        ("a keyword", "gpu_cluster.one"),
        ("another name", "gpu_cluster.one"),
        ("__import__", "gpu_cluster.one"),
        ("a search", "gpu_cluster.one"),
    ],
)
def test_an_import_at_run_time_is_found(grow, kind: str, target: str) -> None:
    tree = grow(start=RUN_TIME[kind], one="", two="", dra__in__platform="")
    found = list(imports.run_time(tree, tree.modules["gpu_cluster.start"]))
    assert [edge.target for edge in found] == [target]
    assert imports.untold(tree) == []


@pytest.mark.parametrize(
    "line",
    [
        "import importlib, sys; importlib.import_module(sys.argv[1])",
        "import runpy; runpy.run_path('components/gpu_cluster/one.py')",
    ],
)
def test_an_import_of_which_the_text_does_not_tell_the_module_is_named(grow, line: str) -> None:
    assert imports.untold(grow(start=f"\n{line}", one="")) == ["gpu_cluster.start:2"]


def test_a_circle_is_found_also_over_an_import_at_run_time(grow) -> None:
    tree = grow(
        registry=RUN_TIME["a name in part"],
        dra__in__platform="from gpu_cluster import pools",
        pools="from .registry import load",
        apart="import gpu_cluster.pools",
    )
    assert imports.circles(imports.edges(tree)) == [
        ["gpu_cluster.dra.platform", "gpu_cluster.pools", "gpu_cluster.registry"]
    ]


def test_imports_that_run_up_are_found(grow) -> None:
    tree = grow(
        cluster="from gpu_cluster import hosts, nodes",
        hosts="from gpu_cluster import nodes",
        nodes="import gpu_cluster.cluster",
        settings="import runpy\ndef go(): runpy.run_module('gpu_cluster.hosts')",
    )
    layers = Layers.of(["gpu_cluster.cluster", "gpu_cluster.hosts | gpu_cluster.nodes"])
    found = layers.upward(imports.edges(tree))
    assert [(edge.source, edge.target) for edge in found] == [
        ("gpu_cluster.hosts", "gpu_cluster.nodes"),
        ("gpu_cluster.nodes", "gpu_cluster.cluster"),
    ]
    assert layers.outside(tree.modules, ["gpu_cluster"]) == ["gpu_cluster.settings"]
    layers = Layers.of(
        ["gpu_cluster.cluster", "gpu_cluster.hosts : gpu_cluster.nodes", "gpu_cluster.settings"]
    )
    found = layers.upward(imports.edges(tree))
    assert found == [
        Edge("gpu_cluster.nodes", "gpu_cluster.cluster", 1),
        Edge("gpu_cluster.settings", "gpu_cluster.hosts", 2, run_time=True),
    ]


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        ("def one(cluster: Cluster): ...", True),
        ("def one(cluster: 'Cluster | None'): ...", True),
        ("def one(clusters: tuple[Cluster, ...]): ...", True),
        ("def one(clusters: Mapping[str, Cluster]): ...", True),
        ("def one(*, whole: Cluster): ...", True),
        ("def one(cluster: module.Cluster): ...", True),
        ("async def one(cluster: Other): ...", True),
        ("class Part:\n    def one(self, cluster: Cluster): ...", True),
        ("@dataclass(frozen=True)\nclass Args:\n    cluster: Cluster", True),
        ("def one(cluster: Foreign): ...", False),
        ("def one(name: str) -> Cluster: ...", False),
        ("def one(cluster): ...", False),
        ("def one(act: Callable[[Cluster], None]): ...", False),
    ],
)
def test_a_function_takes_the_whole_by_its_annotation(grow, function: str, takes: bool) -> None:
    head = """from dataclasses import dataclass
from gpu_cluster import settings as module
from gpu_cluster.settings import Cluster, Cluster as Other
from elsewhere import Cluster as Foreign
"""
    tree = grow(settings="class Cluster: ...", start=head + function)
    assert len(whole.takers(tree)) == takes


def test_the_last_line_and_the_exit_code(grow, tmp_path: Path, capsys) -> None:
    grow(
        cluster="""
            from gpu_cluster.settings import Cluster
            class GpuCluster:
                def __init__(self, args: Cluster): ...
            """,
        settings="class Cluster: ...",
    )
    contract = tmp_path / "pyproject.toml"
    good = '"gpu_cluster.cluster", "gpu_cluster.settings"'
    contract.write_text(CONTRACT.format(layers=good))
    assert house.main(["--root", str(tmp_path)]) == 0
    line = "house: {} upward imports, 0 circles, 1 functions take the whole\n"
    assert capsys.readouterr().out == line.format(0)
    contract.write_text(CONTRACT.format(layers='"gpu_cluster.settings", "gpu_cluster.cluster"'))
    assert house.main(["--root", str(tmp_path), "--list"]) == 1
    out = capsys.readouterr().out
    assert out.endswith(line.format(1))
    assert "  gpu_cluster.cluster:2 -> gpu_cluster.settings\n" in out
    contract.write_text('[tool.importlinter]\nroot_packages = ["gpu_cluster"]')
    assert house.main(["--root", str(tmp_path)]) == 2
    assert "found no contract of type layers" in capsys.readouterr().err


def test_the_programs_of_commands_and_the_platforms_are_found(ours: Tree) -> None:
    found = {(edge.source, edge.target) for edge in imports.edges(ours) if edge.run_time}
    targets = {target for _, target in found}
    assert "gpu_cluster.platforms.dra.platform" in targets
    assert "gpu_cluster.validation.validation" in targets
    assert any(target.startswith("gpu_rules.rules.") for target in targets)
