"""Write the page of all settings from their models; pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from maintenance.cluster_schema import cluster_schema
from maintenance.setting_effects import EFFECTS

Json = dict[str, Any]
ROOT = "gpu-cluster:cluster"
_LONGEST = 80
"""Maximum number of characters of a default value or an example."""
_UNITS = (
    (r"seconds?\b", "seconds"),
    (r"minutes?\b", "minutes"),
    (r"MiB\b", "MiB"),
    (r"\battempts\b", "attempts"),
    (r"\bcards\b", "GPUs"),
    (r"\bpercent\b", "percent"),
    (r"\bcelsius\b", "°C"),
    (r"\bGPUs of one node\b|\bnumber of GPUs\b", "GPUs"),
)
HEAD = """\
# Settings

Each setting of `gpu-cluster:cluster` in `Pulumi.<stack>.yaml`, written by `make stack-schema` from
the models that read the file; [the schema](../stack.schema.json) has the same content for editors.
A model that several places use stands here once, with all its places. What a change does is said
for each section; a preview says it for your stack ([changes](change.md),
[waves](../explanation/rollout.md)).
"""


@dataclass
class Section:
    """A model of settings, and where a stack file uses it.

    Attributes:
        places: Paths of the section in the stack file; the first one is its heading.
        model: The model's schema.
    """

    places: list[str] = field(default_factory=list)
    model: Json = field(default_factory=dict)


def page() -> str:
    """Return the page of all settings as Markdown."""
    schema = cluster_schema()
    found = sections(schema)
    parts = [HEAD, _top(schema)]
    parts += [_section(section, schema["$defs"], found) for section in list(found.values())[1:]]
    return "\n".join(parts)


def settings() -> set[str]:
    """Return the path of each setting, such as `pools[].nodes`, at its model's first place."""
    return {
        _joined(section.places[0], name)
        for section in sections(cluster_schema()).values()
        for name in section.model["properties"]
    }


def sections(schema: Json) -> dict[str, Section]:
    """Return the models of a schema by name; those near the top of the stack file come first."""
    models = schema["$defs"]
    found = {"": Section(places=[""], model=schema)}
    waiting = [""]
    while waiting:
        section = found[waiting.pop(0)]
        for name, setting in section.model["properties"].items():
            for ref, ending in references(setting):
                if (model := _with_properties(models[ref])) is None:
                    continue
                if ref not in found:
                    found[ref] = Section(model=model)
                    waiting.append(ref)
                found[ref].places.append(f"{_joined(section.places[0], name)}{ending}")
    return found


def _with_properties(model: Json) -> Json | None:
    """Return the schema with the model's settings, or None if the model has no settings."""
    options = (model, *model.get("anyOf", ()))
    return next((option for option in options if "properties" in option), None)


def references(setting: Json, ending: str = "") -> Iterator[tuple[str, str]]:
    """Yield the models in a setting, each with the path ending, such as `[]` for list items."""
    if ref := setting.get("$ref"):
        yield ref.rpartition("/")[2], ending
    for option in setting.get("anyOf", ()):
        yield from references(option, ending)
    if isinstance(items := setting.get("items"), dict):
        yield from references(items, f"{ending}[]")
    if isinstance(values := setting.get("additionalProperties"), dict):
        yield from references(values, f"{ending}.*")


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def anchor(heading: str) -> str:
    """Return the anchor that GitHub generates for a Markdown heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _top(schema: Json) -> str:
    lines = ["## Top level", "", "| setting | what it is | a change of it | pods |"]
    lines.append("| --- | --- | --- | --- |")
    found = sections(schema)
    for name, setting in schema["properties"].items():
        effect = EFFECTS[name]
        what = _cell(_what(setting, schema["$defs"], found, with_limits=True))
        must = ", required" if name in schema["required"] else ""
        lines.append(
            f"| `{name}` | {what}{must}{_extra(setting)} | {_cell(effect.changes)} "
            f"| {_cell(effect.disrupts)} |"
        )
    return "\n".join([*lines, ""])


def _extra(setting: Json) -> str:
    example = setting.get("examples", ())
    return f"; example: {_code(example[0])}" if example else ""


def _section(section: Section, models: Mapping[str, Json], found: Mapping[str, Section]) -> str:
    first, *others = section.places
    lines = [f"## `{first}`", ""]
    if text := section.model.get("description"):
        lines += [_paragraph(text), ""]
    if others:
        places = ", ".join(f"`{place}`" for place in others)
        lines += [f"Also: {places}.", ""]
    top = first.partition(".")[0].partition("[")[0]
    lines += [f"A change: {EFFECTS[top].changes} Pods: {EFFECTS[top].disrupts}", ""]
    lines += ["| setting | type | default | unit | example | meaning |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    required = section.model.get("required", ())
    for name, setting in section.model["properties"].items():
        default = "required" if name in required else _default(setting)
        examples = _said(setting, "examples")
        cells = (
            f"`{name}`",
            _what(setting, models, found, with_limits=True),
            default,
            _unit(name, setting),
            _code(examples[0]) if examples else "",
            _said(setting, "description") or "",
        )
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, ""])


def _said(setting: Json, key: str) -> Any:
    """Return a key of a setting's schema, or of its first `anyOf` alternative that has the key."""
    options = (setting, *setting.get("anyOf", ()))
    return next((option[key] for option in options if key in option), None)


def _paragraph(text: str) -> str:
    """Return a text with each paragraph joined to one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"
    return f"`{cut}`" if cut else "empty"


def _default(setting: Json) -> str:
    if "default" not in setting or setting["default"] is None:
        return "none"
    value = setting["default"]
    # A section's default only repeats the defaults of its settings, which the page shows anyway.
    is_section = isinstance(value, dict) and value and setting.get("type") != "object"
    return "its own defaults" if is_section else _code(value)


def _unit(name: str, setting: Json) -> str:
    kinds = {option.get("type") for option in (setting, *setting.get("anyOf", ()))}
    if not kinds & {"integer", "number"}:
        return ""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) + " " + setting.get("description", "")
    found = (unit for pattern, unit in _UNITS if re.search(pattern, words, re.IGNORECASE))
    return next(found, "")


def _what(
    setting: Json,
    models: Mapping[str, Json],
    found: Mapping[str, Section],
    *,
    with_limits: bool = False,
) -> str:
    """Return the type of a setting in words."""
    if ref := setting.get("$ref"):
        return _named(ref.rpartition("/")[2], models, found)
    if options := setting.get("anyOf") or setting.get("oneOf"):
        return " or ".join(
            dict.fromkeys(_what(each, models, found, with_limits=with_limits) for each in options)
        )
    if "const" in setting:
        return _code(setting["const"])
    if "enum" in setting:
        return f"one of {', '.join(map(_code, setting['enum']))}"
    kind = setting.get("type", "any value")
    if kind == "array":
        return f"list of {_what(setting.get('items', {}), models, found)}"
    if kind == "object":
        values = setting.get("additionalProperties")
        inner = _what(values, models, found) if isinstance(values, dict) else "any value"
        return f"mapping of {inner}"
    words = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`"}
    limits = _limits(setting) if with_limits else ""
    return f"{words.get(kind, str(kind))}{limits}"


def _limits(setting: Json) -> str:
    low, high = setting.get("minimum"), setting.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return f", at most {high}" if high is not None else ""


def _named(ref: str, models: Mapping[str, Json], found: Mapping[str, Section]) -> str:
    model = models[ref]
    texts = ["text"] if any(each.get("type") == "string" for each in model.get("anyOf", ())) else []
    if ref in found:
        place = found[ref].places[0]
        return " or ".join([*texts, f"[mapping](#{anchor(place)})"])
    return _what(model, models, found)
