"""`make language`: phrases that a reader with English as a second language stumbles over.

A plain list of phrases and what to write instead; part of `make check`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from commands.environment import ROOT
from commands.files import project_files

#: Phrases, as patterns, and what says it plainly.
PHRASES = {
    r"lets? us not in": "rejects our login",
    r"not all was looked at": "could not inspect everything",
    r"\bis told(?=[,;:]| in\b| by\b| once\b)": "is reported, is shown",
    r"can't be counted so\b": "so they can't be counted",
    r"would else\b": "would otherwise",
    r"\bor else(?= [a-z])": "or, otherwise",
    r"taking back\b": "cleanup, undo",
    r"shall have\b": "should have",
    r"nodes by themselves": "per-node",
    r"at work at once": "run in parallel",
    r"tak(?:es?|en|ing) .{0,40}\bbacks?\b(?! from)": "remove, undo, revert",
    r"took .{0,40}\bback\b": "removed, undid",
    r"without a way there": "air-gapped",
    r"\bstands? for (?:it|its|the|a)\b": "simulate, substitute",
    r"(?<!/)\bstand-ins?\b(?!\.kubeconfig)": "fake, substitute",
    r"gives? way\b|giving way\b": "is removed first",
    r"\bthe look\b": "the inspection",
    r"(?<!here )(?<!It )\bis no (?!more\b|longer\b|reason\b|need\b|error\b)": "isn't a",
    r"\bsays of\b": "reports about",
}

#: What is read by people: code with its comments, scripts, pages.
SUFFIXES = (".py", ".md", ".sh", ".yaml", ".yml", ".toml", "")

#: Texts of others, this list, what is written from elsewhere, tests, and programs inside simulated
#: packages: a changed byte of theirs builds all repositories anew.
LEFT_OUT = (
    *("LICENSE", "commands/language.py", "docs/rules/", "requirements", "tests/"),
    "lab/simulator/hosts/fakes/",
)


def phrases(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, phrase and what to write instead, for each phrase of a text."""
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, instead in PHRASES.items():
            for match in re.finditer(pattern, line, re.IGNORECASE):
                yield number, match[0], instead


def main() -> None:
    """Lists the phrases; exit code 1 when there are any."""
    count = 0
    for name in project_files():
        path = ROOT / name
        if name.startswith(LEFT_OUT) or path.suffix not in SUFFIXES:
            continue
        for line, phrase, instead in phrases(path.read_text(encoding="utf-8", errors="replace")):
            print(f"{name}:{line}: found {phrase!r}; wanted: {instead}")
            count += 1
    print(f"language: {count} phrases")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
