"""A release writes the address of its repository into the packages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from maintenance.release import write_addresses
from tests.fixtures.wheels import ADDRESS, FORGE

PROJECT = '[project]\nname = "gpu-cluster"\n'


@pytest.mark.parametrize(
    ("variables", "addresses"),
    [
        (FORGE, {"Homepage": ADDRESS, "Repository": ADDRESS}),
        ({}, None),
        ({"GITHUB_SERVER_URL": "https://git.example.org"}, None),
        ({**FORGE, "GITHUB_REPOSITORY": ""}, None),
        (
            {**FORGE, "GITHUB_REPOSITORY": 'a"\nname = "b'},
            dict.fromkeys(("Homepage", "Repository"), 'https://git.example.org/a"\nname = "b'),
        ),
    ],
    ids=["a forge", "no forge", "no repository", "an empty name", "a name with quotes"],
)
def test_a_project_file_gets_the_address_that_the_forge_names(
    variables: dict[str, str], addresses: dict[str, str] | None, tmp_path: Path
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(PROJECT)
    write_addresses(file, variables)
    project = tomllib.loads(file.read_text())["project"]
    assert project["name"] == "gpu-cluster"
    assert project.get("urls") == addresses
