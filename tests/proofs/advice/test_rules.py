"""The advice of a rule is followed on the rule's own example: its finding is gone, no other comes.

Only advice in the forms below is followed by its words alone; `line` of `count.py` counts them. The
other rules ask for a decision, such as how many devices a pod needs.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpu_rules import reference
from gpu_rules.rules import EXAMPLES, RULES

Step = str | int
REMOVED = r"Remove (?:it|the (?:entry|annotation|value|request))\b"
ADDED = re.compile(r"Add (\{.+\})\.")
SET = re.compile(r"Set (\w+): (\w+)\b")
MOVED = "Move the entry from requests to limits."

HIDDEN = {"GPU002": "GPU049"}
"""Rules whose finding hides one of another rule, because of two numbers only one counts."""


def steps(path: str) -> list[Step]:
    """Return the keys and indices of a path such as `spec.containers[0].limits[nvidia.com/gpu]`."""
    found = re.findall(r"\[([^\]]+)\]|([^.\[\]]+)", path)
    return [int(a) if a.isdecimal() else a or b for a, b in found]


def at(value: Any, where: list[Step]) -> Any:
    for step in where:
        value = value[step]
    return value


def followed(manifest: Any, path: str, cure: str) -> Any:
    """Return the manifest after an advice; None if the advice has no form that is known here."""
    edited, where = copy.deepcopy(manifest), steps(path)
    try:
        parent = at(edited, where[:-1])
    except (KeyError, IndexError, TypeError):
        return None
    if cure.startswith("Remove the minus sign"):
        parent[where[-1]] = str(parent[where[-1]]).lstrip("-")
    elif cure.startswith("Remove the entry") and isinstance(where[-2], int):
        del at(edited, where[:-2])[where[-2]]
    elif re.match(REMOVED, cure):
        del parent[where[-1]]
    elif cure == MOVED:
        at(edited, where[:-2]).setdefault("limits", {})[where[-1]] = parent.pop(where[-1])
    elif match := ADDED.match(cure):
        parent.setdefault(where[-1], []).append(yaml.safe_load(match[1]))
    elif (match := SET.match(cure)) and match[1] == where[-1]:
        parent[where[-1]] = yaml.safe_load(match[2])
    else:
        return None
    return edited


@pytest.mark.promise("Advice of a rule that names an edit removes the finding and brings no other.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("rule_id", RULES)
def test_the_advice_of_a_rule_is_followed(
    rule_id: str, record_property: Callable[[str, object], None]
) -> None:
    example = EXAMPLES[rule_id]
    context = reference.context_for(example)
    manifest = yaml.safe_load(example.failing)
    found = [one for one in reference.violations(manifest, context) if one.rule.id == rule_id]
    edited = followed(manifest, found[0].path, found[0].cure)
    record_property("advice", ("rule", rule_id, edited is not None))
    if edited is not None:
        left = {one.rule.id for one in reference.violations(edited, context)}
        assert left <= {HIDDEN.get(rule_id)}, (found[0].cure, left)
