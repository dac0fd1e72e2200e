"""The processes of the inspection wait for what they are asked, end, and say why they failed."""

from __future__ import annotations

import ast
from pathlib import Path

import pulumi
import pytest

from components.inspection import processes
from components.inspection.processes import EXTENT, Extent, answers, start

ROOT = Path(__file__).resolve().parents[2]
NO_HOSTS = {"hosts": [], "privateKey": ""}


def test_a_process_that_is_asked_nothing_ends_without_a_word() -> None:
    """So it is where the cluster isn't there yet, or the program ends before it asks."""
    waiting = start("cluster", "hosts")
    assert answers(waiting, {"hosts": NO_HOSTS}) == ({"hosts": {"facts": {}, "problems": []}}, "")
    assert {process.returncode for process in waiting.values()} == {0}


def test_what_has_no_process_is_not_asked() -> None:
    assert answers(start(), {"hosts": NO_HOSTS, "cluster": {}}) == ({}, "")


def test_a_process_that_fails_says_why_and_the_others_answer() -> None:
    seen, reason = answers(start("cluster", "hosts"), {"hosts": NO_HOSTS, "cluster": {}})
    assert seen == {"hosts": {"facts": {}, "problems": []}}
    assert reason == "the inspection of the cluster failed: KeyError: 'chart'"


def test_a_process_that_answers_too_late_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LIMIT", 0)
    host = {"name": "a", "address": "192.0.2.1", "port": 22, "user": "root", "hostKey": "none"}
    waiting = start("hosts")
    seen, reason = answers(waiting, {"hosts": {"hosts": [host], "privateKey": ""}})
    assert (seen, reason) == ({}, "the inspection of the hosts took longer than 0 s")
    assert all(process.returncode for process in waiting.values())


@pytest.mark.parametrize(
    ("value", "parts"),
    [(None, ("cluster", "hosts")), ("hosts", ("hosts",)), ("cluster", ("cluster",)), ("off", ())],
)
def test_what_is_inspected_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, value: str | None, parts: tuple[str, ...]
) -> None:
    monkeypatch.delenv(EXTENT, raising=False)
    if value:
        monkeypatch.setenv(EXTENT, value)
    assert Extent.wanted().parts == parts


def test_another_word_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "everything")
    with pytest.raises(pulumi.RunError, match="found 'everything'; wanted: all, cluster, hosts"):
        Extent.wanted()


@pytest.mark.parametrize("program", ["__main__.py", "lab/benchmarks/hosts_stack/__main__.py"])
def test_a_program_starts_the_inspection_before_it_imports_the_rest(program: str) -> None:
    """What B2 measures, and the time of each preview, rests on it: both import side by side."""
    statements = ast.parse((ROOT / program).read_text()).body
    started = next(one for one in statements if isinstance(one, ast.Assign))
    before = [one for one in statements if one.lineno < started.lineno]
    modules = [one.module for one in before if isinstance(one, ast.ImportFrom)]
    assert ast.unparse(started) == "processes = start(*Extent.wanted().parts)"
    assert set(modules) <= {"__future__", "components.inspection.processes"}
    assert not [one for one in before if isinstance(one, ast.Import)]
