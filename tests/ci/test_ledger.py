"""The ledger of proofs: written by the runs, one row for each proof of the Makefile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import ledger

MAKEFILE = """
test-good:
	@echo "=== skipped, by reason ==="; echo "   12 no GPU in this machine"; echo "=== end ==="
	@echo "good: 3 of 3 | $(or $(ONLY),all)"; echo "===== 5 passed, 12 skipped in 1.00s ====="
test-bad:
	@echo "bad: 1 of 2"; echo "===== 1 failed in 1.00s ====="; exit 1
test:
	@echo none
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a committed project with two proofs."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "state"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


def rows(project: Path) -> dict[str, ledger.Row]:
    return ledger.read((project / ledger.PAGE).read_text())


def test_a_row_has_what_the_run_printed_and_skipped(project: Path) -> None:
    assert ledger.prove(project, ["good"]) == 0
    row = rows(project)["good"]
    assert row.line == "good: 3 of 3 / all"
    assert row.skipped == "12: no GPU in this machine"
    assert row.tree == ledger.digest(project)


def test_the_choice_of_proofs_is_no_choice_within_a_proof(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY", "good")
    monkeypatch.setenv("MAKEFLAGS", " -- ONLY=good")
    assert ledger.prove(project, ["good"]) == 0
    assert rows(project)["good"].line == "good: 3 of 3 / all"


def test_a_failed_proof_is_written_as_failed_and_fails_the_command(project: Path) -> None:
    assert ledger.prove(project, []) == 1
    assert rows(project)["bad"].line == "failed: bad: 1 of 2"
    assert "1 of 2 whole" in (project / ledger.PAGE).read_text()


def test_each_proof_of_the_makefile_has_a_row_and_one_that_never_ran_says_so(project: Path) -> None:
    ledger.prove(project, ["good"])
    assert list(rows(project)) == ["good", "bad"]
    assert rows(project)["bad"] == ledger.Row()


def test_rows_are_written_without_a_run(project: Path) -> None:
    assert ledger.prove(project, [], run_all=False) == 0
    assert rows(project) == {"good": ledger.Row(), "bad": ledger.Row()}


def test_a_row_of_an_older_tree_stays_and_is_counted_as_older(project: Path) -> None:
    ledger.prove(project, ["good"])
    (project / "code.py").write_text("x = 1\n")
    commit(project)
    ledger.prove(project, ["bad"])
    assert rows(project)["good"].tree != ledger.digest(project)
    assert "0 of 2 whole" in (project / ledger.PAGE).read_text()


def test_the_page_itself_is_not_in_the_digest(project: Path) -> None:
    ledger.prove(project, ["good"])
    before = ledger.digest(project)
    commit(project)
    assert ledger.digest(project) == before


def test_no_proof_runs_on_a_tree_that_is_not_committed(project: Path) -> None:
    (project / "Makefile").write_text(MAKEFILE + "\n")
    with pytest.raises(SystemExit, match="uncommitted"):
        ledger.prove(project, ["good"])


def test_a_name_of_no_proof_is_refused_with_those_that_there_are(project: Path) -> None:
    with pytest.raises(SystemExit, match="no proof other; there are good, bad"):
        ledger.prove(project, ["other"])


def test_the_page_of_this_project_has_each_proof_of_its_makefile() -> None:
    known = ledger.proofs((ledger.ROOT / "Makefile").read_text(encoding="utf-8"))
    page = (ledger.ROOT / ledger.PAGE).read_text(encoding="utf-8")
    assert list(ledger.read(page)) == known


def test_what_the_proofs_showed_is_proposed_and_nothing_else(project: Path, tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / ".github" / "scripts" / "propose.sh"
    (programs := tmp_path / "programs").mkdir()
    (programs / "gh").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{tmp_path}/told'\n")
    (programs / "gh").chmod(0o755)
    ledger.prove(project, [])
    commit(project)

    def propose() -> None:
        subprocess.run(
            [script, "proofs"],
            cwd=project,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_RUN_ID": "1"},
            check=True,
        )

    propose()
    assert not (tmp_path / "told").exists()
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "--bare", origin], check=True)
    subprocess.run(["git", "-C", project, "remote", "add", "origin", origin], check=True)
    (project / "unrelated").write_text("x")
    (project / ledger.PAGE).write_text("proofs: 1 of 2 whole\n")
    propose()
    assert "proofs: 1 of 2 whole" in (tmp_path / "told").read_text()
    shown = ["git", "-C", origin, "show", "--name-only", "--format=", "proofs/1"]
    assert subprocess.check_output(shown, text=True) == f"{ledger.PAGE}\n"
