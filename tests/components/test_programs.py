"""A program, its Python module and its name in the Pulumi state are the same word."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from gpu_cluster.programs import PROGRAMS

COMPONENTS = Path(__file__).parents[2] / "components" / "gpu_cluster"


@pytest.mark.parametrize(("program", "module"), PROGRAMS.items(), ids=PROGRAMS)
def test_a_program_is_named_as_its_module(program: str, module: str) -> None:
    assert module.rpartition(".")[2].replace("_", "-") == program
    assert (COMPONENTS.parent / (module.replace(".", "/") + ".py")).is_file()


def test_a_program_that_reads_its_previous_output_gets_it() -> None:
    calls = {
        ast.unparse(call.args[1]): {word.arg for word in call.keywords}
        for file in COMPONENTS.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "run_program"
    }
    chosen = calls.pop("program.name")  # A platform chooses the program.
    assert "has_previous_output" in chosen
    for name, words in calls.items():
        source = importlib.import_module(PROGRAMS[ast.literal_eval(name)]).__file__
        reads = "previous(" in Path(str(source)).read_text(encoding="utf-8")
        assert ("has_previous_output" in words) == reads, name


def test_commands_run_programs_of_the_table() -> None:
    called = {
        name
        for file in COMPONENTS.rglob("*.py")
        for name in re.findall(r'run_program\(\s*[^,]+,\s*"([a-z-]+)"', file.read_text())
    }
    assert len(called) > 5
    assert called <= PROGRAMS.keys()
