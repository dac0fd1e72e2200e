"""Tests of the fresh machine check: its PATH, its search for leftovers and its report."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci import fresh_machine, leftovers, machine

NOT_ASKED_FOR = """
actionlint apt-get cc containerd curl debootstrap docker dpkg gcc go helm kubectl nvidia-smi openssl
perl pip pulumi rpm shellcheck ssh ssh-agent sshd wget
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that refers to a folder only in its environment variables."""
    with subprocess.Popen(
        ["sleep", "600"], env={**os.environ, "GIVEN": str(tmp_path / "cache")}, cwd="/"
    ) as process:
        yield process
        process.kill()


def test_the_path_holds_what_readme_asks_for_and_nothing_else(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    machine.link_programs(programs)
    names = {path.name for path in programs.iterdir()}
    assert {"python3", "git", "make", "sh", "bash", "env", "awk", "sed"} <= names
    assert not names & set(NOT_ASKED_FOR.split())
    done = subprocess.run(
        [programs / "python3", "-c", "import sys, venv; print(sys.version)"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == sys.version.strip()


def test_the_test_command_is_readmes() -> None:
    assert fresh_machine.COMMAND.search((fresh_machine.ROOT / "README.md").read_text()) is not None


def test_a_process_of_the_run_is_found_and_ended(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    left = leftovers.await_none(tmp_path, seconds=0)
    assert left == {sleeper.pid: "sleep 600"}
    leftovers.end(left)
    assert sleeper.wait(timeout=60) < 0
    assert leftovers.processes(tmp_path) == {}


def test_processes_of_others_and_of_the_caller_do_not_count(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leftovers.processes(tmp_path / "another-run") == {}
    monkeypatch.chdir(tmp_path)
    assert set(leftovers.processes(tmp_path)) == {sleeper.pid}


def test_files_that_tests_leave_are_found(tmp_path: Path) -> None:
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    kept = ("tmp/pytest-of-root", "cache/embedded/dev", "cache/embedded/state")
    left = ("tmp/tmpabc", "cache/embedded/e2e-123-1", "cache/tmp/test-9-22")
    for name in (*kept, *left):
        (tmp_path / name).mkdir(parents=True)
    (cache / "embedded" / ".e2e-123-1.lock").touch()
    (temporary / "tmpabc" / "key").touch()
    assert leftovers.files(temporary, cache) == [
        f"{cache}/embedded/.e2e-123-1.lock",
        f"{cache}/embedded/e2e-123-1 (with no file)",
        f"{cache}/tmp/test-9-22 (with no file)",
        f"{temporary}/tmpabc (with key)",
    ]


def test_failed_tests_are_named_once() -> None:
    output = (
        "x\nFAILED tests/a.py::test_b[c d] - boom\nERROR tests/a.py::test_b[c - x\nERROR at e\n"
    )
    assert fresh_machine.failed_tests(output)[0].startswith("tests/a.py::test_b[c")
    assert len(fresh_machine.failed_tests("FAILED t.py::a - x\nERROR t.py::a - y\n")) == 1


def test_a_failing_part_gives_back_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fresh_machine.Place(tmp_path)
    place.clone.mkdir()
    said = fresh_machine.run(["sh", "-c", "echo why; exit 3"], place, "tests", os.environ)
    assert said == "why\n"
    assert "exit code 3" in capsys.readouterr().out
    monkeypatch.setitem(fresh_machine.MINUTES, "tests", 0.01)
    assert fresh_machine.run(["sleep", "600"], place, "tests", os.environ) == ""


def test_the_slow_tests_run_after_readmes_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fresh_machine.Place(tmp_path)
    place.clone.mkdir()
    (place.clone / "README.md").write_text("```\n$ make test\n```\n")
    ran = []

    def run(command: list[str], _: fresh_machine.Place, part: str, __: object) -> str | None:
        ran.append((" ".join(command), part))
        return None if part == "tests" else "FAILED tests/a.py::test_b\n"

    monkeypatch.setattr(fresh_machine, "run", run)
    assert fresh_machine.tests(place, {}) == ["make test-full: tests/a.py::test_b"]
    assert [name for name, _ in ran][:2] == ["make test", "make test-full"]
