"""A rule is one module, and an incomplete module is reported by its name."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpu_rules.rules import RULES
from gpu_rules.rules.discovery import Entry, RuleError, find
from gpu_rules.rules.example import Example
from gpu_rules.rules.signs import Sign
from gpu_rules.rules.twin import Twin

Found = Callable[[], tuple[Entry, ...]]

HEAD = """
from gpu_rules.context import Severity
from gpu_rules.rules.example import Example
from gpu_rules.rules.rule import Rule
from gpu_rules.rules.signs import Sign
from gpu_rules.rules.twin import NoTwin, pods

"""
RULE = 'RULE = Rule("GPU901", "A rule", Severity.ADVISORY, why="It is one.", source="none")\n'
TWIN = 'TWIN = pods("[]", signs=(Sign("true"),))\n'
EXAMPLE = 'EXAMPLE = Example("kind: Pod", "kind: Pod")\n'
NO_TWIN = 'TWIN = a Twin, or NoTwin("why there is none")'
CURE = "write it beside the rule, as the modules next to it do"


@contextlib.contextmanager
def rulebook(**modules: str) -> Iterator[Found]:
    """Create a package `rulebook` of rules, and yield a function that finds the rules.

    This is not a fixture, because only tests without fixtures run in the mutation test
    (`tests.proofs.rules.mutate`). The package is unloaded afterwards.
    """
    with tempfile.TemporaryDirectory() as temporary:
        topic = Path(temporary, "rulebook", "topic")
        topic.mkdir(parents=True)
        for path in (topic.parent, topic):
            (path / "__init__.py").touch()
        for name, text in modules.items():
            (topic / f"{name}.py").write_text(text)
        sys.path.insert(0, temporary)
        importlib.invalidate_caches()
        try:
            yield partial(find, [str(topic.parent)], "rulebook")
        finally:
            sys.path.remove(temporary)
            for name in [name for name in sys.modules if name.partition(".")[0] == "rulebook"]:
                del sys.modules[name]


def test_one_file_makes_a_rule() -> None:
    beside = "raise AssertionError('no rule, so nobody imports it')"
    with rulebook(gpu901_a_rule=HEAD + RULE + TWIN + EXAMPLE, reading=beside) as found:
        (entry,) = found()
    assert entry.rule.id == "GPU901"
    assert isinstance(entry.twin, Twin)
    assert entry.twin.signs == (Sign("true"),)
    assert entry.example == Example("kind: Pod", "kind: Pod")


def test_rules_are_in_the_order_of_their_ids() -> None:
    later = HEAD + RULE + TWIN + EXAMPLE
    earlier = later.replace("GPU901", "GPU900")
    with rulebook(gpu901_a=later, gpu900_b=earlier) as found:
        assert [entry.rule.id for entry in found()] == ["GPU900", "GPU901"]


@pytest.mark.parametrize(
    ("content", "lacks", "wanted"),
    [
        (TWIN + EXAMPLE, "no RULE", "RULE = a Rule"),
        (RULE + EXAMPLE, "no TWIN", NO_TWIN),
        (RULE + "TWIN = None\n" + EXAMPLE, "no TWIN", NO_TWIN),
        (
            RULE + 'TWIN = pods("[]")\n' + EXAMPLE,
            "a twin about pods without signs",
            "signs=(Sign(…), …)",
        ),
        (
            RULE + 'TWIN = pods("[]", signs=())\n' + EXAMPLE,
            "a twin about pods without signs",
            "signs=(Sign(…), …)",
        ),
        (RULE + TWIN, "no EXAMPLE", "EXAMPLE = an Example"),
        (
            RULE.replace("901", "902") + TWIN + EXAMPLE,
            "the id GPU902",
            "that of the module's name",
        ),
    ],
)
def test_what_a_rule_lacks_is_told_with_its_module(content: str, lacks: str, wanted: str) -> None:
    with rulebook(gpu901_a_rule=HEAD + content) as found, pytest.raises(RuleError) as told:
        found()
    (fault,) = told.value.faults
    assert (fault.place, fault.found) == ("rulebook.topic.gpu901_a_rule", lacks)
    assert (fault.wanted, fault.cure) == (wanted, CURE)


@pytest.mark.parametrize("twin", ['NoTwin("It has none.")', 'pods("[]", "DaemonSet")'])
def test_a_twin_that_judges_no_pods_needs_no_signs(twin: str) -> None:
    with rulebook(gpu901_a_rule=f"{HEAD}{RULE}TWIN = {twin}\n{EXAMPLE}") as found:
        assert len(found()) == 1


def test_an_id_is_given_once() -> None:
    whole = HEAD + RULE + TWIN + EXAMPLE
    with rulebook(gpu901_a=whole, gpu901_b=whole) as found, pytest.raises(RuleError) as told:
        found()
    (fault,) = told.value.faults
    assert (fault.place, fault.found) == ("rulebook.topic.gpu901_b", "the id GPU901 twice")
    assert (fault.wanted, fault.cure) == ("an id of its own", CURE)


def test_every_module_with_the_name_of_a_rule_is_one() -> None:
    folder = Path(sys.modules["gpu_rules.rules"].__path__[0])
    named = sorted(path.name[:6].upper() for path in folder.glob("*/gpu[0-9]*.py"))
    assert named == list(RULES)
