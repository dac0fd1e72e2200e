"""Nothing in a folder keeps the checker from the rest of the folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.policies.check.running import check
from tests.policies.check.samples import BAD, GOOD

DEEP = 1_500
"""Number of folders, or of links, that a recursive function of Python can't follow."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield an empty folder, which is deleted by a program that is not recursive."""
    made = tmp_path / "folder"
    made.mkdir()
    yield made
    subprocess.run(["rm", "-rf", made], check=True)


def _link_to_itself(folder: Path) -> None:
    (folder / "a.yaml").symlink_to("a.yaml")


def _chain_of_links(folder: Path) -> None:
    for number in range(DEEP):
        (folder / f"a{number}.yaml").symlink_to(f"a{number + 1}.yaml")


def _deep_folder(folder: Path) -> None:
    current = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("a", dir_fd=current)
        below = os.open("a", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    with os.fdopen(os.open("a.yaml", os.O_WRONLY | os.O_CREAT, dir_fd=current), "w") as file:
        file.write(BAD)
    os.close(current)


def _kustomization_that_is_a_link_to_itself(folder: Path) -> None:
    (folder / "kustomization.yaml").symlink_to("kustomization.yaml")


def _kustomization_with_a_chain_of_links(folder: Path) -> None:
    for number in range(DEEP):
        (folder / f"a{number}").symlink_to(f"a{number + 1}")
    (folder / "kustomization.yaml").write_text("resources: [a0]\n")


ENTRIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link to itself": (_link_to_itself, "too many levels of symbolic links"),
    "a chain of links": (_chain_of_links, "too many levels of symbolic links"),
    "a deep folder": (_deep_folder, "folders in one another"),
    "a kustomization that is a link to itself": (
        _kustomization_that_is_a_link_to_itself,
        "too many levels of symbolic links",
    ),
    "a kustomization with a chain of links": (
        _kustomization_with_a_chain_of_links,
        "not rendered",
    ),
}


@pytest.mark.promise("A link or a folder that can't be followed is named, and the rest is checked.")
@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_a_folder_takes_no_verdict_from_the_others(name: str, folder: Path) -> None:
    make, reason = ENTRIES[name]
    (folder / "hostile").mkdir()
    make(folder / "hostile")
    (folder / "a.yaml").write_text(GOOD)
    (folder / "z.yaml").write_text(BAD)
    report = json.loads(check(str(folder), "--format", "json").output)
    assert {each["file"] for each in report["violations"]} == {str(folder / "z.yaml")}
    assert report["summary"]["objects"] == 2
    named = [each["message"] for each in (*report["problems"], *report["unjudged"])]
    assert any(reason in message for message in named)


@pytest.mark.parametrize("pattern", ["a0.yaml", "**/*.yaml", "a/" * 1_000 + "a.yaml"])
def test_an_argument_that_cannot_be_followed_is_named(pattern: str, folder: Path) -> None:
    _chain_of_links(folder)
    _deep_folder(folder)
    (folder / "z.yaml").write_text(BAD)
    done = check(f"{folder}/{pattern}", str(folder / "z.yaml"), "--format", "json")
    report = json.loads(done.output)
    assert {each["file"] for each in report["violations"]} == {str(folder / "z.yaml")}
    assert (done.code, bool(report["problems"])) == (2, True)
