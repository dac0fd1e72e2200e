"""Pages of the reference are those of the code: facts, and what a stack exports."""

from __future__ import annotations

import ast
from dataclasses import fields

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.validation.measurement import Outcome
from gpu_cluster.validation.node_result import of_node
from gpu_rules.facts import reference
from tests.proofs.docs.pages import ROOT

OUTPUTS = ROOT / "docs" / "reference" / "outputs.md"
STACK = {
    "version": "v1",
    "kubernetes": {"context": "c"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
}


def rows(heading: str) -> set[str]:
    """Return the names in the first column of a section of the page of outputs."""
    section = (
        OUTPUTS.read_text(encoding="utf-8").partition(f"# {heading}\n")[2].partition("\n## ")[0]
    )
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `|") for cell in cells for name in cell.split(",")}


def test_the_committed_page_of_facts_is_that_of_the_tables() -> None:
    page = ROOT / reference.PAGE
    assert page.read_text(encoding="utf-8") == reference.page(), "run make facts"


@pytest.mark.promise("Each output of a stack, and each key in it, stands on the page of outputs.")
def test_each_output_has_a_row() -> None:
    tree = ast.parse(
        (ROOT / "components" / "gpu_cluster" / "outputs.py").read_text(encoding="utf-8")
    )
    exported = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "pulumi.export"
        and isinstance(call.args[0], ast.Constant)
    }
    assert len(exported) > 5
    assert rows("Outputs") == exported
    pool = resolve(load(STACK), "test").validation.pools[0]
    gpus = {"nvidia.com/gpu": "8"}
    live = {
        "metadata": {"name": "gpu-1", "labels": {}, "annotations": {}},
        "status": {
            "allocatable": gpus,
            "capacity": gpus,
            "nodeInfo": {"bootID": "b1", "kernelVersion": "6.8"},
        },
    }
    assert rows("A node") == of_node(pool, live).keys()
    assert rows("A result of a test") == {each.name for each in fields(Outcome)}
