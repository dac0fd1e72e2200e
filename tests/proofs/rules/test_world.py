"""Which rules speak of the same objects of public repositories, by the table `world.tsv`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from tests.proofs.rules import results, world
from tests.proofs.rules.world import EXPLAINED, LEAST_OBJECTS, Row, read_table, unexplained

PAIRS = (("GPU036", "GPU078"), ("GPU022", "GPU079"), ("GPU026", "GPU039"), ("GPU007", "GPU028"))
"""The rules that the reference calls two levels of one."""
FEW = 3
"""Number of objects from which on rules that always come together are more than a chance."""


def test_no_two_rules_always_speak_of_the_same_objects() -> None:
    alone: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for row in read_table():
        rules = sorted(rule for rule in row.expected.split(" ") if rule.startswith("GPU"))
        alone.update(rules)
        together.update(combinations(rules, 2))
    # Two node agents may write device files, and also see other folders.
    assert {pair: together[pair] for pair in PAIRS if together[pair]} == {PAIRS[0]: 2}
    same = {
        (first, second)
        for (first, second), both in together.items()
        if both >= max(FEW, 0.5 * alone[first], 0.5 * alone[second])
    }
    # These Namespaces have neither a quota nor a Pod Security level. They are two facts.
    assert same == {("GPU029", "GPU060")}


ROW = Row("owner/name", "0" * 40, "a.yaml", "Pod a", "GPU022 GPU036", "", "")
REASON = "GPU022: SYS_PTRACE reads other processes. GPU036: /dev has all devices of the node"


@pytest.mark.promise(
    "Each object of the world that is refused for host paths, privileges or host namespaces has a "
    "reason for it in the table."
)
def test_each_refusal_of_privileges_and_host_paths_has_a_reason() -> None:
    missing = unexplained(read_table())
    assert [f"{row.path} {row.object}: {rule}" for row, rule in missing] == []


@pytest.mark.parametrize(
    ("reason", "without"),
    [
        ("", ["GPU022", "GPU036"]),
        ("it needs that", ["GPU022", "GPU036"]),
        ("GPU036: /dev has all devices of the node", ["GPU022"]),
        ("GPU022: . GPU036: /dev has all devices", ["GPU022"]),
        (REASON, []),
    ],
)
def test_a_row_names_the_reason_of_each_such_rule(reason: str, without: list[str]) -> None:
    row = replace(ROW, reason=reason)
    assert unexplained([row]) == [(row, rule) for rule in without]
    advice = replace(row, expected="GPU050 GPU078")
    assert unexplained([advice]) == []
    assert set(without) <= set(EXPLAINED)


@pytest.mark.parametrize(("reason", "code"), [("", 1), (REASON, 0)])
@pytest.mark.parametrize("folder", [False, True])
def test_the_proof_fails_for_a_refusal_without_a_reason(
    reason: str,
    code: int,
    folder: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(world, "LEAST_OBJECTS", 0)
    monkeypatch.setattr(world, "read_table", lambda: [replace(ROW, reason=reason)])
    monkeypatch.setenv("GPU_REPOSITORIES", str(tmp_path) if folder else "")
    assert world.main() == code
    assert ("no reason for GPU036" in capsys.readouterr().out) is bool(code)


def test_the_table_has_enough_objects_of_enough_repositories() -> None:
    rows = [row for row in read_table() if row.object]
    assert len({(row.repository, row.path, row.object) for row in rows}) >= LEAST_OBJECTS >= 1000
    assert len({row.repository for row in rows}) >= 20
    assert all(row.expected for row in rows)


def test_a_folder_that_lacks_the_repositories_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_REPOSITORIES", str(tmp_path))
    monkeypatch.setattr(results, "store", lambda part, found: None)
    assert world.main() == 1
    assert f"0 objects; at least {LEAST_OBJECTS} are compared" in capsys.readouterr().out
