"""Write the page of all settings from their models; pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.settings.effects import EFFECTS
from maintenance.cluster_schema import cluster_schema

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
    found_sections = sections(schema)
    texts = [HEAD, _top_section(schema)]
    texts += [
        _settings_section(section, schema["$defs"], found_sections)
        for section in list(found_sections.values())[1:]
    ]
    return "\n".join(texts)


def settings() -> set[str]:
    """Return the path of each setting, such as `pools[].nodes`, at its model's first place."""
    return {
        _join_place(section.places[0], name)
        for section in sections(cluster_schema()).values()
        for name in section.model["properties"]
    }


def sections(schema: Json) -> dict[str, Section]:
    """Return the models of a schema by name; those near the top of the stack file come first."""
    models = schema["$defs"]
    by_name = {"": Section(places=[""], model=schema)}
    waiting = [""]
    while waiting:
        section = by_name[waiting.pop(0)]
        for name, setting in section.model["properties"].items():
            for ref, ending in references(setting):
                if (model := _with_properties(models[ref])) is None:
                    continue
                if ref not in by_name:
                    by_name[ref] = Section(model=model)
                    waiting.append(ref)
                by_name[ref].places.append(f"{_join_place(section.places[0], name)}{ending}")
    return by_name


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


def _join_place(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def anchor(heading: str) -> str:
    """Return the anchor that GitHub generates for a Markdown heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _top_section(schema: Json) -> str:
    lines = ["## Top level", "", "| setting | what it is | a change of it | pods |"]
    lines.append("| --- | --- | --- | --- |")
    all_sections = sections(schema)
    for name, setting in schema["properties"].items():
        effect = EFFECTS[name]
        kind = _table_cell(_describe_type(setting, schema["$defs"], all_sections, with_limits=True))
        must = ", required" if name in schema["required"] else ""
        lines.append(
            f"| `{name}` | {kind}{must}{_example_text(setting)} | {_table_cell(effect.changes)} "
            f"| {_table_cell(effect.disrupts)} |"
        )
    return "\n".join([*lines, ""])


def _example_text(setting: Json) -> str:
    example = setting.get("examples", ())
    return f"; example: {_code_text(example[0])}" if example else ""


def _settings_section(
    section: Section, models: Mapping[str, Json], all_sections: Mapping[str, Section]
) -> str:
    first, *other_places = section.places
    lines = [f"## `{first}`", ""]
    if text := section.model.get("description"):
        lines += [_join_paragraphs(text), ""]
    if other_places:
        places = ", ".join(f"`{place}`" for place in other_places)
        lines += [f"Also: {places}.", ""]
    top = first.partition(".")[0].partition("[")[0]
    lines += [f"A change: {EFFECTS[top].changes} Pods: {EFFECTS[top].disrupts}", ""]
    lines += ["| setting | type | default | unit | example | meaning |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    required = section.model.get("required", ())
    for name, setting in section.model["properties"].items():
        default = "required" if name in required else _default_text(setting)
        examples = _schema_key(setting, "examples")
        cells = (
            f"`{name}`",
            _describe_type(setting, models, all_sections, with_limits=True),
            default,
            _unit_text(name, setting),
            _code_text(examples[0]) if examples else "",
            _schema_key(setting, "description") or "",
        )
        lines.append(f"| {' | '.join(map(_table_cell, cells))} |")
    return "\n".join([*lines, ""])


def _schema_key(setting: Json, key: str) -> Any:
    """Return a key of a setting's schema, or of its first `anyOf` alternative that has the key."""
    options = (setting, *setting.get("anyOf", ()))
    return next((option[key] for option in options if key in option), None)


def _join_paragraphs(text: str) -> str:
    """Return a text with each paragraph joined to one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code_text(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"
    return f"`{cut}`" if cut else "empty"


def _default_text(setting: Json) -> str:
    if "default" not in setting or setting["default"] is None:
        return "none"
    value = setting["default"]
    # A section's default only repeats the defaults of its settings, which the page shows anyway.
    is_section = isinstance(value, dict) and value and setting.get("type") != "object"
    return "its own defaults" if is_section else _code_text(value)


def _unit_text(name: str, setting: Json) -> str:
    kinds = {option.get("type") for option in (setting, *setting.get("anyOf", ()))}
    if not kinds & {"integer", "number"}:
        return ""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) + " " + setting.get("description", "")
    units = (unit for pattern, unit in _UNITS if re.search(pattern, words, re.IGNORECASE))
    return next(units, "")


def _describe_type(
    setting: Json,
    models: Mapping[str, Json],
    all_sections: Mapping[str, Section],
    *,
    with_limits: bool = False,
) -> str:
    """Return the type of a setting in words."""
    if ref := setting.get("$ref"):
        return _describe_model(ref.rpartition("/")[2], models, all_sections)
    if options := setting.get("anyOf") or setting.get("oneOf"):
        return " or ".join(
            dict.fromkeys(
                _describe_type(option, models, all_sections, with_limits=with_limits)
                for option in options
            )
        )
    if "const" in setting:
        return _code_text(setting["const"])
    if "enum" in setting:
        return f"one of {', '.join(map(_code_text, setting['enum']))}"
    kind = setting.get("type", "any value")
    if kind == "array":
        return f"list of {_describe_type(setting.get('items', {}), models, all_sections)}"
    if kind == "object":
        values = setting.get("additionalProperties")
        inner = (
            _describe_type(values, models, all_sections)
            if isinstance(values, dict)
            else "any value"
        )
        return f"mapping of {inner}"
    words = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`"}
    limits = _limits_text(setting) if with_limits else ""
    return f"{words.get(kind, str(kind))}{limits}"


def _limits_text(setting: Json) -> str:
    low, high = setting.get("minimum"), setting.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return f", at most {high}" if high is not None else ""


def _describe_model(
    ref: str, models: Mapping[str, Json], all_sections: Mapping[str, Section]
) -> str:
    model = models[ref]
    texts = (
        ["text"] if any(option.get("type") == "string" for option in model.get("anyOf", ())) else []
    )
    if ref in all_sections:
        place = all_sections[ref].places[0]
        return " or ".join([*texts, f"[mapping](#{anchor(place)})"])
    return _describe_type(model, models, all_sections)
