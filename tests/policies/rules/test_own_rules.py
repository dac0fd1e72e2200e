"""Rules of a user's own are loaded from a folder that the configuration names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_rules.rules import EXAMPLES, RULES, TWINS
from tests.policies.check.running import check
from tests.policies.check.samples import GOOD

RULE = '''
"""Rule GPU901: a pod has an owner's label."""

from ...context import Context, Severity
from ..example import Example
from ..rule import Finding, Rule, Subject
from ..twin import NoTwin
from ..unknown import at


def _owned(subject, context):
    if subject.pod and at(subject.manifest, "metadata", "labels", "team") is None:
        yield Finding("metadata.labels[team]", "none", "a team", "Name the team.")


RULE = Rule("GPU901", "A pod has a team", Severity.MANDATORY, "costs", "our handbook", _owned)
TWIN = NoTwin("none is needed")
EXAMPLE = Example("kind: A", "kind: B")
'''


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    for known in (RULES, TWINS, EXAMPLES):
        known.pop("GPU901", None)


def configured(folder: Path, text: str, **settings: object) -> tuple[str, str]:
    own = folder / "own"
    own.mkdir()
    (own / "gpu901_team.py").write_text(text)
    (folder / "pod.yaml").write_text(GOOD)
    config = folder / "pack.json"
    settings = {"ruleFolder": "own", **settings}
    config.write_text(json.dumps({"gpu-rules-mandatory": settings}))
    return str(folder / "pod.yaml"), str(config)


@pytest.mark.promise(
    "A folder with rules of your own is judged by, without a change of the rulebook."
)
def test_a_rule_of_a_folder_is_judged_by(tmp_path: Path) -> None:
    manifest, config = configured(tmp_path, RULE)
    done = check(manifest, "--config", config)
    assert done.code == 1
    assert "GPU901 A pod has a team" in done.output
    assert check(manifest, "--config", config, "--rule", "GPU901=advisory").code == 0


def test_the_settings_have_levels_for_own_rules(tmp_path: Path) -> None:
    manifest, config = configured(tmp_path, RULE, rules={"GPU901": "off"})
    assert check(manifest, "--config", config).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RULE = 1", "no RULE"),
        (RULE.replace('"GPU901"', '"GPU902"'), "the id GPU902"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_module_that_is_no_rule_is_told(tmp_path: Path, text: str, said: str) -> None:
    manifest, config = configured(tmp_path, text)
    done = check(manifest, "--config", config)
    assert done.code == 2
    assert said in done.errors
    assert "gpu901_team" in done.errors


def test_a_level_of_a_rule_that_no_folder_has_is_told(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(GOOD)
    done = check(str(tmp_path / "pod.yaml"), "--rule", "GPU901=off")
    assert (done.code, "no such rule" in done.errors) == (2, True)


def test_a_folder_without_rules_is_told(tmp_path: Path) -> None:
    manifest, config = configured(tmp_path, RULE)
    (tmp_path / "own" / "gpu901_team.py").unlink()
    done = check(manifest, "--config", config)
    assert (done.code, "no rules" in done.errors) == (2, True)
