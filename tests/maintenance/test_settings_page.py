"""The schema of stack files and the page of all settings are those of the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpu_cluster.base import yaml_file
from gpu_cluster.base.model import Model
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.effects import EFFECTS
from maintenance import settings_page as reference
from maintenance.cluster_schema import cluster_schema, stack_schema
from maintenance.stack_schema import SCHEMA, SETTINGS
from tests.fixtures.documents import document

ROOT = Path(__file__).resolve().parents[2]
TOLD = yaml.safe_load((ROOT / "tests/components/change/told.yaml").read_text(encoding="utf-8"))
STACKS = sorted(ROOT.glob("Pulumi.*.yaml"))


@pytest.fixture(scope="module")
def judge() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(stack_schema()))


@pytest.mark.promise("Each setting stands on the page of settings, and in the schema for editors.")
def test_the_committed_schema_and_page_are_those_of_the_models() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == stack_schema(), "run make stack-schema"
    assert SETTINGS.read_text(encoding="utf-8") == reference.page(), "run make stack-schema"


def models(model: type[Model], seen: dict[type[Model], None]) -> dict[type[Model], None]:
    """Return a model and all models inside it, read from the classes and not from the schema."""
    if model in seen:
        return seen
    seen[model] = None
    waiting: list[Any] = [field.annotation for field in model.model_fields.values()]
    while waiting:
        kind = waiting.pop()
        waiting += getattr(kind, "__args__", ())
        if isinstance(kind, type) and issubclass(kind, Model):
            models(kind, seen)
    return seen


def test_every_field_of_every_model_has_a_row() -> None:
    page = SETTINGS.read_text(encoding="utf-8")
    names = [
        field.alias or name
        for model in models(ClusterSettings, {})
        for name, field in model.model_fields.items()
    ]
    assert len(names) > 330
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(names)
    assert len(reference.settings()) == len(names)


def test_every_setting_says_what_it_is() -> None:
    for line in SETTINGS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            name, kind, default, *_, meaning = line.removesuffix(" |").split(" | ")
            assert all((name, kind, default)), line
            assert meaning.strip(), line


@pytest.mark.promise(
    "Each setting without settings of its own has an example on the page of settings."
)
def test_every_setting_without_a_section_has_an_example_that_editors_take(
    judge: jsonschema.Draft202012Validator,
) -> None:
    schema = cluster_schema()
    for model in (schema, *schema["$defs"].values()):
        for name, setting in model.get("properties", {}).items():
            examples = setting.get("examples", ())
            shown = [*examples, *(each for each in setting.get("anyOf", ()) if "examples" in each)]
            assert shown or [*reference.references(setting)] or "const" in setting, name
            checker = judge.evolve(schema={**setting, "$defs": schema["$defs"]})
            for example in examples:
                assert [error.message for error in checker.iter_errors(example)] == [], name


def test_every_link_of_the_page_has_its_heading() -> None:
    page = SETTINGS.read_text(encoding="utf-8")
    headings = {reference.anchor(line[3:]) for line in page.splitlines() if line.startswith("## ")}
    linked = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert linked
    assert linked <= headings


def test_every_section_says_what_a_change_does() -> None:
    assert set(EFFECTS) == set(cluster_schema()["properties"])


@pytest.mark.parametrize(
    ("section", "edit"),
    [(section, edit) for section, effect in EFFECTS.items() for edit in effect.edits],
)
def test_what_the_page_says_of_drains_is_what_previews_say(section: str, edit: str) -> None:
    drained = "drained" in TOLD[edit].replace("nobody drained", "")
    assert drained == EFFECTS[section].drains


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.name)
def test_each_committed_stack_file_names_the_schema_and_obeys_it(
    path: Path, judge: jsonschema.Draft202012Validator
) -> None:
    assert path.read_text(encoding="utf-8").startswith(
        "# yaml-language-server: $schema=docs/stack.schema.json\n"
    )
    assert [error.message for error in judge.iter_errors(yaml_file.read(path).value)] == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"platform": 7}, "7"),
        ({"pool": []}, "pool"),
        ({"pools": [{"name": "a", "nodes": ["n"], "gpusPerNode": "8"}]}, "8"),
        ({"pools": [{"name": "a", "nodes": ["n"], "gpusPerNode": 17}]}, "17"),
        ({"driver": {"source": "floppy"}}, "floppy"),
        ({"ssh": {"port": 70000}}, "70000"),
    ],
)
def test_an_editor_marks_what_the_program_refuses(
    change: dict[str, Any], named: str, judge: jsonschema.Draft202012Validator
) -> None:
    good = {"config": {"gpu-cluster:cluster": document()}}
    assert [*judge.iter_errors(good)] == []
    bad = {"config": {"gpu-cluster:cluster": document(**change)}}
    messages = " ".join(error.message for error in judge.iter_errors(bad))
    assert named in messages
