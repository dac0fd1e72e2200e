"""Draw texts at random for a reader who has not seen them: `python -m tests.drawn_texts SEED`.

25 docstrings, 25 comments, 25 error texts and 25 paragraphs, numbered and mixed; the same seed
draws the same texts of the same tree. `--against FOLDER…` mixes them with as many texts of other
projects, whose error texts are those that they raise; `--key FILE` then names the origin of each
number. docs/contributing.md says how a round of readers goes.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests import error_texts
from tests.error_texts import OPEN, ErrorText, Mark

ROOT = Path(__file__).resolve().parents[1]
EACH = 25
"""Number of texts of each kind."""
LONGEST = 600
"""Number of characters that are shown of a text."""
NO_WORDS = re.compile(r"noqa|type:|ruff|fmt:|mypy|pragma|!")
"""Beginnings of comments that are for tools."""
NOT_READ = re.compile(r"(^|/)tests/|\.(zh|ko)\.md$")
"""Files that are not drawn from: tests, and translations."""


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module and of what it defines."""
    for node in ast.walk(ast.parse(source)):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a module; lines of one comment below each other are one text."""
    lines: list[str] = []
    last = (-1, -1)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        words = token.string.lstrip("#: ").strip()
        if token.type != tokenize.COMMENT or NO_WORDS.match(words):
            continue
        if token.start != (last[0] + 1, last[1]) and lines:
            yield " ".join(lines)
            lines = []
        lines.append(words)
        last = token.start
    if lines:
        yield " ".join(lines)


def raised(source: str) -> Iterator[str]:
    """Yield the texts of the exceptions that a module raises, with `…` for each value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            first = node.exc.args[0]
            if isinstance(first, ast.Constant | ast.JoinedStr):
                yield error_texts.shown(first, {})


def paragraphs(page: str) -> Iterator[str]:
    """Yield the paragraphs and points of a page in Markdown or reStructuredText.

    Those of fewer than ten words, code, tables, headings and directives are left out.
    """
    prose = re.sub(r"^ *(```|~~~).*?^ *\1|<!--.*?-->", "", page, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", prose):
        text = " ".join(block.split())
        is_code = all(line.startswith("    ") for line in block.strip("\n").splitlines())
        if len(text.split()) >= 10 and not is_code and not re.match(r"[|#<]|\.\. |:\w+:", text):
            yield text


def message(error: ErrorText) -> str:
    """Return an error text as its reader sees it: with its place and its cure."""
    place = f"{error.place or OPEN}: " if error.text.startswith("found ") else ""
    if error.mark is Mark.PART:
        return f"(a part of a longer message) {place}{error.text}"
    cure = "" if error.mark is Mark.NO_ACT else f"; cure: {error.cure or OPEN}"
    return f"{place}{error.text}{cure}"


@cache
def texts_of(project: Path) -> dict[str, list[str]]:
    """Return a project's texts by their kind, without those of tests and of generated files."""
    command = ["git", "ls-files", "-z", ":(attr:!linguist-generated)"]
    output = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    names = [name for name in output.split("\0") if name and not NOT_READ.search(name)]
    modules = [(project / name).read_text() for name in names if name.endswith(".py")]
    pages = [(project / name).read_text() for name in names if name.endswith((".md", ".rst"))]
    own_errors = [message(error) for error in error_texts.errors()]
    return {
        "docstring": [text for module in modules for text in docstrings(module)],
        "comment": [text for module in modules for text in comments(module)],
        "error text": own_errors
        if project == ROOT
        else [text for module in modules for text in raised(module)],
        "paragraph": [text for page in pages for text in paragraphs(page)],
    }


def drawn(projects: Sequence[Path], seed: str) -> list[tuple[str, str]]:
    """Return `EACH` different texts of each kind of some projects (fewer if there are fewer)."""
    chance = random.Random(seed)  # noqa: S311, no secret
    chosen = []
    for kind in texts_of(projects[0]):
        texts = sorted({text for project in projects for text in texts_of(project)[kind]})
        chosen += [(kind, text) for text in chance.sample(texts, min(EACH, len(texts)))]
    chance.shuffle(chosen)
    return chosen


def main() -> None:
    """Print the texts, each with its number and kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("seed", help="any text")
    parser.add_argument("--against", type=Path, nargs="+", default=[], help="git checkouts")
    parser.add_argument("--key", type=Path, help="file for the origin of each number")
    options = parser.parse_args()
    lines = [("ours", *text) for text in drawn([ROOT], options.seed)]
    if options.against:
        others = [folder.resolve() for folder in options.against]
        lines += [("theirs", *text) for text in drawn(others, options.seed)]
        random.Random(options.seed).shuffle(lines)  # noqa: S311, no secret
    for number, (_, kind, text) in enumerate(lines, 1):
        print(f"{number:3} [{kind}] {' '.join(text.split())[:LONGEST]}")
    if options.key:
        key = [f"{number}\t{origin}\n" for number, (origin, *_) in enumerate(lines, 1)]
        options.key.write_text("".join(key), encoding="utf-8")


if __name__ == "__main__":
    main()
