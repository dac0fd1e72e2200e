"""A rule is one module: what it lacks is told with the module's name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.rules import RULES
from policies.rules.discovery import Entry, RuleError, find

HEAD = """
from policies.rules.context import Severity
from policies.rules.example import Example
from policies.rules.rule import Rule
from policies.rules.signs import Sign
from policies.rules.twin import NoTwin, pods

"""
RULE = 'RULE = Rule("GPU901", "A rule", Severity.ADVISORY, why="It is one.", source="none")\n'
TWIN = 'TWIN = pods("[]", signs=(Sign("true"),))\n'
EXAMPLE = 'EXAMPLE = Example("kind: Pod", "kind: Pod")\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `rulebook` with the topic `topic`, forgotten afterwards."""
    topic = tmp_path / "rulebook" / "topic"
    topic.mkdir(parents=True)
    for path in (topic.parent, topic):
        (path / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield topic
    for name in [name for name in sys.modules if name.partition(".")[0] == "rulebook"]:
        del sys.modules[name]


def entries(folder: Path) -> tuple[Entry, ...]:
    return find([str(folder.parent)], "rulebook")


def test_one_file_makes_a_rule(folder: Path) -> None:
    (folder / "gpu901_a_rule.py").write_text(HEAD + RULE + TWIN + EXAMPLE)
    (folder / "reading.py").write_text("raise AssertionError('no rule, so nobody imports it')")
    (entry,) = entries(folder)
    assert entry.rule.id == "GPU901"


@pytest.mark.parametrize(
    ("content", "lacks"),
    [
        (TWIN + EXAMPLE, "no RULE"),
        (RULE + EXAMPLE, "no TWIN"),
        (RULE + "TWIN = None\n" + EXAMPLE, "no TWIN"),
        (RULE + 'TWIN = pods("[]")\n' + EXAMPLE, "a twin about pods without signs"),
        (RULE + 'TWIN = pods("[]", signs=())\n' + EXAMPLE, "a twin about pods without signs"),
        (RULE + TWIN, "no EXAMPLE"),
        (RULE.replace("901", "902") + TWIN + EXAMPLE, "the id GPU902"),
    ],
)
def test_what_a_rule_lacks_is_told_with_its_module(folder: Path, content: str, lacks: str) -> None:
    (folder / "gpu901_a_rule.py").write_text(HEAD + content)
    with pytest.raises(RuleError, match=f"^rulebook.topic.gpu901_a_rule: found {lacks}; wanted: "):
        entries(folder)


@pytest.mark.parametrize("twin", ['NoTwin("It has none.")', 'pods("[]", "DaemonSet")'])
def test_a_twin_that_judges_no_pods_needs_no_signs(folder: Path, twin: str) -> None:
    (folder / "gpu901_a_rule.py").write_text(f"{HEAD}{RULE}TWIN = {twin}\n{EXAMPLE}")
    assert len(entries(folder)) == 1


def test_an_id_is_given_once(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"gpu901_{name}.py").write_text(HEAD + RULE + TWIN + EXAMPLE)
    with pytest.raises(RuleError, match="gpu901_b: found the id GPU901 twice"):
        entries(folder)


def test_every_module_with_the_name_of_a_rule_is_one() -> None:
    folder = Path(sys.modules["policies.rules"].__path__[0])
    named = sorted(path.name[:6].upper() for path in folder.glob("*/gpu[0-9]*.py"))
    assert named == list(RULES)
