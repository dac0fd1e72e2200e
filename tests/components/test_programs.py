"""A program, its Python module and its name in the Pulumi state are the same word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.programs import PROGRAMS

COMPONENTS = Path(__file__).parents[2] / "components"


@pytest.mark.parametrize(("program", "module"), PROGRAMS.items(), ids=PROGRAMS)
def test_a_program_is_named_as_its_module(program: str, module: str) -> None:
    assert module.rpartition(".")[2].replace("_", "-") == program
    assert (COMPONENTS.parent / (module.replace(".", "/") + ".py")).is_file()


def test_commands_run_programs_of_the_table() -> None:
    called = {
        name
        for file in COMPONENTS.rglob("*.py")
        for name in re.findall(r'run_program\(\s*[^,]+,\s*"([a-z-]+)"', file.read_text())
    }
    assert len(called) > 5
    assert called <= PROGRAMS.keys()
