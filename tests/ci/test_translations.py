"""Translations of pages: they have what their page in English has, whose commands run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.proofs.docs.pages import ROOT, commands, manuals, original, pages
from tests.proofs.docs.translations import differences, in_other_languages, translations

TUTORIAL = ROOT / "docs" / "tutorial" / "first-hour.md"
ENGLISH = TUTORIAL.read_text(encoding="utf-8")
MARK = "<!-- not run: needs a cluster with GPUs -->\n"
CHANGES = {
    "command": ("sed -i 's/gpu-", "sed -i 's/node-"),
    "order of commands": (
        "gpu-cluster who\ngpu-cluster status\n",
        "gpu-cluster status\ngpu-cluster who\n",
    ),
    "output": ("24 resources changed, 13 s", "25 resources changed, 13 s"),
    "language of a block": ("```sh\ngpu-cluster up\n", "```bash\ngpu-cluster up\n"),
    "mark": (MARK, ""),
    "reason of a mark": (MARK, MARK.replace("GPUs", "hosts")),
    "link": ("](../how-to/backends.md)", "](../how-to/air-gap.md)"),
    "anchor of a link": ("(#take-the-hosts-keys)", "(#rehearse)"),
    "heading": ("### Rehearse\n", "Rehearse.\n"),
    "level of a heading": ("### Rehearse\n", "## Rehearse\n"),
    "row": ("| last line | meaning |\n| --- | --- |\n", "| a | b |\n| --- | --- |\n| c | d |\n"),
    "item": ("- `eval` changes", "`eval` changes"),
    "name in the text": ("`taints: []` in", "`taints` in"),
    "link to a language": ("](first-hour.ko.md)", "](../README.md)"),
}
"""What is changed in the page in English, each as a text of it and the text in its place."""


def test_the_tutorial_is_translated_into_chinese_and_korean() -> None:
    assert in_other_languages(TUTORIAL) == {"first-hour.zh.md", "first-hour.ko.md"}
    scripts = {"zh": r"[\u4e00-\u9fff]", "ko": r"[\uac00-\ud7a3]"}
    for language, script in scripts.items():
        text = TUTORIAL.with_suffix(f".{language}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^#+ .+", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
        assert [one for one in headings if not re.search(script, one)] == []


@pytest.mark.promise("A translation of a page has each command and output of the page that is run.")
@pytest.mark.parametrize("path", translations(), ids=lambda path: path.name)
def test_a_translation_has_the_parts_of_the_page_that_runs(path: Path) -> None:
    assert list(differences(path)) == []


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", translations(), ids=lambda path: path.name)
def test_a_change_of_the_page_in_english_makes_its_translation_differ(
    path: Path, change: str
) -> None:
    old, new = CHANGES[change]
    assert old in ENGLISH
    assert list(differences(path, ENGLISH.replace(old, new, 1)))


@pytest.mark.parametrize("path", translations(), ids=lambda path: path.name)
def test_a_change_of_any_command_in_english_makes_its_translation_differ(path: Path) -> None:
    lines = ENGLISH.splitlines()
    for number in {command.line for command in commands(TUTORIAL)}:
        changed = [*lines[: number - 1], f"{lines[number - 1]} # changed", *lines[number:]]
        assert list(differences(path, "\n".join(changed))), lines[number - 1]


def test_a_change_of_words_makes_no_translation_differ() -> None:
    words = ENGLISH.replace("A preview changes nothing.", "No preview changes a thing.")
    assert words != ENGLISH
    assert [line for path in translations() for line in differences(path, words)] == []


def test_translations_are_checked_for_dead_links_and_their_commands_do_not_run_again() -> None:
    assert set(translations()) < set(pages())
    assert not set(translations()) & set(manuals())
    assert {original(path) for path in translations()} < set(manuals())
