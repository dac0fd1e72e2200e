"""Pages of the documentation: links lead somewhere, and each page is of one kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_cluster.commands.verbs import BY_NAME
from tests.proofs.docs.__main__ import script_of
from tests.proofs.docs.pages import (
    KINDS,
    MOST_MARKED,
    ROOT,
    SHELLS,
    blocks,
    commands,
    dead_links,
    manuals,
    pages,
)
from tests.proofs.docs.settings import faults, unknown_names

ELSEWHERE = {"README.md", "contributing.md", "promises.md", "proofs.md", "rules.md", "support.md"}
"""Pages next to the folders of the kinds; docs/README.md says why they stand there."""


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.promise("No link of README and the documentation is dead, and no anchor.")
def test_no_link_is_dead() -> None:
    assert {
        f"{name}: {link}"
        for path, name in zip(pages(), names(pages()), strict=True)
        for link in dead_links(path)
    } == set()


def test_each_page_is_of_one_kind() -> None:
    top = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert top == ELSEWHERE
    folders = {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()}
    assert folders == {*KINDS, "images"}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_index_names_each_page() -> None:
    index = ROOT / "docs" / "README.md"
    text = index.read_text(encoding="utf-8")
    for path in pages():
        name = str(path.relative_to(index.parent)) if path.is_relative_to(index.parent) else ""
        if name and path != index and "decisions/0" not in name:
            assert f"({name})" in text, name


@pytest.mark.promise("Each command block of the how-tos is run by the proof, or says why not.")
def test_no_command_hides_from_the_proof_in_a_block_of_another_language() -> None:
    begins = re.compile(
        r"(make|pulumi|kubectl|openssl|git|python|venv/\S+|export|eval) (?![^\n]*:)"
    )
    for path in manuals():
        for block in blocks(path):
            hidden = block.language not in SHELLS and begins.match(block.text)
            assert not hidden, f"{block.page}:{block.line}: a block `sh` is run"


def test_a_how_to_names_the_installed_command() -> None:
    """A reader has the packages, and no Makefile."""
    by_make = re.compile(rf"\bmake ({'|'.join(BY_NAME)})\b(?! VERB)")
    found = {
        f"{name}: {match[0]}"
        for path, name in zip(manuals(), names(manuals()), strict=True)
        if name != "README.md"
        for match in by_make.finditer(path.read_text(encoding="utf-8"))
    }
    # The pages say what developers of this project do instead.
    allowed = r"docs/tutorial/first-hour\S*: make up|docs/how-to/ci\.md: .*"
    assert {each for each in found if not re.fullmatch(allowed, each)} == set()


PAGE = """# A page

See [a part](#the-part), [nothing](#no-part), [a file](Makefile), [no file](gone.md).
`[code](gone.md)` is no link.

## The part

<!-- not run: needs a host -->
```sh
ssh gpu-1
```

1. First:

   ```sh
   # a comment
   make new \\
     STACK=lab
   cat > file <<'END'
   two lines
   END
   ```

```console
$ make up
up: 32 of 32 GPUs
```
"""


def test_a_dead_link_and_a_dead_anchor_are_found() -> None:
    assert dead_links(ROOT / "page.md", PAGE) == ["#no-part", "gone.md"]


def test_commands_are_found_with_their_marks_and_lines() -> None:
    found = commands(ROOT / "page.md", PAGE)
    assert [(one.text, one.mark) for one in found] == [
        ("ssh gpu-1", "needs a host"),
        ("make new \\\n  STACK=lab", ""),
        ("cat > file <<'END'\ntwo lines\nEND", ""),
        ("make up", ""),
    ]
    lines = PAGE.splitlines()
    assert [lines[one.line - 1].strip().removeprefix("$ ") for one in found] == [
        one.text.splitlines()[0] for one in found
    ]
    assert [block.language for block in blocks(ROOT / "page.md", PAGE)] == ["sh", "sh", "console"]


@pytest.mark.promise("Each setting that the tutorial and the how-tos show loads.")
def test_each_block_of_settings_loads() -> None:
    assert [fault for path in manuals() for fault in faults(path)] == []


def test_each_setting_that_a_page_names_exists() -> None:
    assert {
        f"{name}: {setting}"
        for path, name in zip(pages(), names(pages()), strict=True)
        if "decisions" not in path.parts
        for setting in unknown_names(path.read_text(encoding="utf-8"))
    } == set()
    assert unknown_names("`rollout.evict`, `pools[].mig`, `rollout.evicts`, `pools.gpus: 1`") == [
        "rollout.evicts",
        "pools.gpus",
    ]


def test_each_page_becomes_a_script_with_its_settings_also_with_a_date() -> None:
    scripts = {path.stem: script_of(path) for path in manuals()}
    assert "until: 2030-12-31" in scripts["time-slicing"]


def test_few_commands_are_not_run_and_each_says_why() -> None:
    found = [command for path in manuals() for command in commands(path)]
    elsewhere = {command.mark for command in found if command.mark.startswith("tests/")}
    assert [path for path in elsewhere if not (ROOT / path).is_file()] == []
    marked = [command for command in found if command.mark and command.mark not in elsewhere]
    assert len(marked) <= len(found) * MOST_MARKED
    assert {command.mark for command in marked if len(command.mark.split()) < 3} == set()
