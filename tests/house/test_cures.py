"""Each setting that a host script's error message suggests exists in the stack file's schema."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.settings.declared_cluster import ClusterSettings

SECTIONS = {
    to_camel(name): field.annotation for name, field in ClusterSettings.model_fields.items()
}
NAMED = re.compile(rf"(?<![\w./$-])({'|'.join(SECTIONS)})((?:\.[a-z][A-Za-z]*)+)(?![\w/(-])")
FILES = {"sh", "service", "conf", "list", "sources"}
"""File name extensions, which would otherwise be mistaken for the last part of a setting."""


def models(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models in a field's type annotation, also in unions and containers."""
    if get_origin(annotation) is Annotated:
        return models(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType, tuple, dict):
        return [model for word in get_args(annotation) for model in models(word)]
    return (
        [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
    )


def is_setting(section: str, path: str) -> bool:
    """Check that a section of the stack file has a setting with this path."""
    found = models(SECTIONS[section])
    for word in path.strip(".").split("."):
        fields = {
            to_camel(name): field.annotation
            for model in found
            for name, field in model.model_fields.items()
        }
        if word not in fields:
            return False
        found = models(fields[word])
    return True


def named(path: Path) -> list[tuple[str, str]]:
    """Return the settings that a host script mentions outside its comments."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    found = NAMED.findall("\n".join(lines))
    return [pair for pair in found if pair[1].rpartition(".")[2] not in FILES]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.sh")), ids=lambda path: path.stem)
def test_a_cure_names_settings_that_there_are(path: Path) -> None:
    assert [pair for pair in named(path) if not is_setting(*pair)] == []


def test_the_judge_knows_what_is_no_setting() -> None:
    assert is_setting("kernel", ".release")
    assert is_setting("runtime", ".docker.forward")
    assert not is_setting("kernel", ".version")
    assert sum(len(named(path)) for path in FOLDER.rglob("*.sh")) > 10
