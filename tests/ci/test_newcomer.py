"""The newcomer's page: its tasks are there, and its changes still fit the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import newcomer

TASKS = newcomer.tasks(newcomer.PAGE.read_text(encoding="utf-8"))


def test_the_page_has_all_six_tasks_and_each_ends_with_its_test() -> None:
    assert sorted(TASKS) == ["chart", "default", "host", "platform", "pool", "rule"]
    for blocks in TASKS.values():
        assert (blocks[-1].language, blocks[-1].path) == ("sh", "")
        assert "pytest" in blocks[-1].text


@pytest.mark.parametrize("name", sorted(TASKS))
def test_its_changes_fit_the_code(name: str, tmp_path: Path) -> None:
    """`make test-newcomer` also runs the tests of the tasks."""
    newcomer.copy(tmp_path)
    changes = [block for block in TASKS[name] if block.path or block.language == "diff"]
    assert changes
    assert list(newcomer.perform(changes, tmp_path)) == []


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    blocks = [newcomer.Block("sh", "", "echo why; exit 3\n"), newcomer.Block("sh", "", "true\n")]
    assert [fault.endswith("why\n") for fault in newcomer.perform(blocks, tmp_path)] == [True]
