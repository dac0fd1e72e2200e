"""Tests of docs/contributing.md: the tasks it describes exist, and its diffs apply to the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import newcomer

TASKS = newcomer.tasks(newcomer.PAGE.read_text(encoding="utf-8"))


def test_the_page_has_all_seven_tasks_and_each_ends_with_its_test() -> None:
    assert set(TASKS) == set(newcomer.GOALS)
    for blocks in TASKS.values():
        assert (blocks[-1].language, blocks[-1].path) == ("sh", "")
        assert "pytest" in blocks[-1].text


@pytest.mark.parametrize("name", sorted(TASKS))
def test_its_changes_fit_the_code(name: str, tmp_path: Path) -> None:
    """This test only applies the page's diffs; `make test-newcomer` also runs its commands."""
    newcomer.copy(tmp_path)
    changes = [block for block in TASKS[name] if block.path or block.language == "diff"]
    assert changes
    assert list(newcomer.perform(changes, tmp_path)) == []


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    blocks = [newcomer.Block("sh", "", "echo why; exit 3\n"), newcomer.Block("sh", "", "true\n")]
    assert [fault.endswith("why\n") for fault in newcomer.perform(blocks, tmp_path)] == [True]


def test_what_a_task_touches_is_counted_without_tests_and_caches(tmp_path: Path) -> None:
    for name in ("components/a.py", "components/b.py", "docs/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    before = newcomer.sources(tmp_path)
    for name in ("components/a.py", "docs/new.md", "tests/t.py", "components/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("after")
    (tmp_path / "components/b.py").unlink()
    touched = newcomer.touched(before, newcomer.sources(tmp_path))
    assert touched == ["components/a.py", "components/b.py", "docs/new.md"]


def test_a_task_has_a_person_write_no_more_files_than_its_goal() -> None:
    counts = {name: len(newcomer.by_hand(blocks)) for name, blocks in TASKS.items()}
    assert {
        name for name, count in counts.items() if not 0 < count <= newcomer.GOALS[name]
    } == set()
    assert newcomer.by_hand([newcomer.Block("python", "tests/t.py", "")]) == []


def test_the_last_line_counts_every_task_in_one_order() -> None:
    counts = dict.fromkeys(reversed(newcomer.GOALS), 2)
    assert newcomer.summary(counts) == (
        "newcomer: rule 2 files, host step 2, software step 2, chart setting 2, platform 2, "
        "pool field 2, default 2"
    )
