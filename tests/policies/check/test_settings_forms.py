"""Each wrong form of each setting is refused by a message that shows the right form.

The wrong forms are derived from the schema of the settings, several for each type.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_rules.check.context import ContextError, by_config, settings_of
from gpu_rules.parameters import PROPERTIES, RULE_FOLDER
from gpu_rules.rules import Context
from gpu_rules.settings_file import EXAMPLES

Steps = tuple[str | int, ...]
WRONG_BY_TYPE: Mapping[str, Sequence[Any]] = {
    "string": (7, True, ["a"], {"a": "b"}, None),
    "integer": ("8", 1.5, True, [8], {"a": 8}, None, -1),
    "boolean": ("yes", 1, ["true"], None),
    "array": ("a", 3, {"a": "b"}, None, True),
    "object": ("a", 3, ["a"], None, True),
}
WRONG_TEXTS: Mapping[str, Sequence[str]] = {
    "until": ("31.12.2030", "2030", "tomorrow", "2030-02-30", "2030-13-01"),
    "taints": ("nvidia.com/gpu", "nvidia.com/gpu=present", "nvidia.com/gpu:Always", ":NoSchedule"),
    "nodes": ("GPU-1", "gpu 1", "-gpu", "gpu-[1-4]"),
    "allowedHostPaths": ("data", "/data/../etc", "/data/*/x", ""),
}
"""Texts that have the type of a setting and not its form, by the setting or its list."""


def places(schema: Mapping[str, Any], steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yield each place of the settings with its schema; lists and objects by their first item."""
    for name, below in schema.get("properties", {}).items():
        yield (*steps, name), below
        yield from places(below, (*steps, name))
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        yield (*steps, "key"), inner
    if isinstance(items := schema.get("items"), dict):
        yield (*steps, 0), items
        yield from places(items, (*steps, 0))


def types(schema: Mapping[str, Any]) -> list[str]:
    given = schema["type"]
    return given if isinstance(given, list) else [given]


def is_right(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a wrong form of one type is the right form of another that is allowed."""
    kinds = types(schema)
    return (
        (isinstance(value, list) and "array" in kinds and value == ["a"])
        or (isinstance(value, dict) and "object" in kinds)
        or (value == 3 and "integer" in kinds)
        or (isinstance(value, str) and "string" in kinds)
    )


def wrong_forms() -> Iterator[tuple[str, Steps, Any]]:
    """Yield a name, the place and the value of each wrong form."""
    for steps, schema in places({"properties": PROPERTIES}):
        label = ".".join(map(str, steps))
        if steps[0] == "rules" and len(steps) == 2 and steps[1] not in ("GPU050", "GPU026"):
            continue
        values: list[Any] = [
            value
            for kind in types(schema)
            for value in WRONG_BY_TYPE[kind]
            if not is_right(value, schema)
        ]
        if "enum" in schema:
            values += ["other", "", str(schema["enum"][0]).upper()]
        if steps[:1] == ("rules",) and len(steps) == 2:
            # An unquoted `off` is false in YAML, and means "off".
            values = [value for value in values if value is not False]
        named = [step for step in steps if isinstance(step, str)][-1]
        if types(schema) == ["string"]:
            values += WRONG_TEXTS.get(named, ())
        if schema.get("additionalProperties") is False:
            values.append({"unknown": 1})
        for required in schema.get("required", ()):
            known = EXAMPLES[str(steps[0])][0]
            values.append({key: value for key, value in known.items() if key != required})
        yield from ((f"{label} = {value!r}", steps, value) for value in values)


CASES = {name: (steps, value) for name, steps, value in wrong_forms()}


def with_value(steps: Steps, value: Any) -> dict[str, Any]:
    """Return the complete settings with another value at one place."""
    settings: dict[str, Any] = copy.deepcopy(dict(EXAMPLES))
    at: Any = settings
    for step, following in pairwise(steps):
        if isinstance(at, dict):
            at = at.setdefault(step, [] if isinstance(following, int) else {})
        else:
            at = at[step]
    if isinstance(at, list) and not at:
        at.append(value)
    else:
        at[steps[-1]] = value
    return settings


def refused(settings: Any, folder: Path) -> list[Any]:
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump(settings))
    with pytest.raises(ContextError) as error:
        by_config(file, Context())
    return list(error.value.faults)


def place_of(steps: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


@pytest.mark.promise(
    "A setting of a wrong form is refused by a message with its place, its meaning and an example."
)
@pytest.mark.parametrize("case", sorted(CASES))
def test_a_wrong_form_is_refused_with_the_right_one(case: str, tmp_path: Path) -> None:
    steps, value = CASES[case]
    fault, *_ = refused(with_value(steps, value), tmp_path)
    assert place_of(steps[:1]) in fault.found
    shown = fault.wanted.partition("; such as ")[2]
    # The example is a form that is accepted in this place.
    example = yaml.safe_load(f"{{{shown}}}")
    (name,) = example
    assert name in steps
    right = with_value(steps[: steps.index(name) + 1], example[name])
    file = tmp_path / "right.yaml"
    right.pop(RULE_FOLDER, None)
    file.write_text(yaml.safe_dump(right))
    by_config(file, Context())


def test_each_setting_has_wrong_forms() -> None:
    tested = {steps for steps, _ in CASES.values()}
    assert {steps[0] for steps in tested} == PROPERTIES.keys()
    assert {("pools", 0, "taints", 0), ("exemptions", 0, "until"), ("plugin", "sharing")} <= tested


@pytest.mark.parametrize("key", ["pool", "Pools", "gpusPerNode", "ignore", "node_names", ""])
def test_a_name_that_is_no_setting_is_refused_by_name(key: str, tmp_path: Path) -> None:
    (fault, *_) = refused({**EXAMPLES, key: 1}, tmp_path)
    assert repr(key) in fault.found
    assert "gpu-rules settings" in fault.cure


@pytest.mark.parametrize("document", ["[]", "a", "3", "", "a: [", "a: 1\n---\nb: 2\n"])
def test_a_file_that_is_no_mapping_is_refused(document: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(document)
    with pytest.raises(ContextError) as error:
        settings_of(file, trusted=True)
    assert "gpu-rules settings" in error.value.faults[0].cure
