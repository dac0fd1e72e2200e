"""Read the pages of the documentation: links, anchors, code blocks and their commands.

A code block of a shell (`sh`, `console`) holds commands. A comment in the page above the block
says why its commands cannot run in the proof: ``<!-- not run: needs a host with GPUs -->``, or
which test runs them: ``<!-- run by: tests/proofs/… -->``. A YAML block with settings of a stack
file is added to the stack file of the page, unless a comment ``<!-- not applied: ... -->`` says why
not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maintenance.settings_page import anchor

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("tutorial", "how-to", "reference", "explanation")
"""Folders of the documentation, one for each kind of page."""
MOST_MARKED = 0.15
"""Largest share of the commands that may be marked as not run."""
SHELLS = ("sh", "bash", "console")
MARK = re.compile(r"<!-- (not run|not applied|run by): (.+?) -->", re.S)
_TRANSLATION = re.compile(r"(.+)\.[a-z]{2}\.md")
_FENCE = re.compile(r"^( *)(`{3,})([^`\n]*)\n(.*?)^\1\2 *$", re.M | re.S)
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
_OWN_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


@dataclass(frozen=True)
class Block:
    """Code block of a page.

    Attributes:
        page: Path of the page, relative to the project.
        line: Number of the block's first line in the page.
        language: The block's language, such as `sh`; empty without one.
        text: The block's text, without the page's indentation.
        mark: Why the block is not run or not applied; empty if it is.
    """

    page: str
    line: int
    language: str
    text: str
    mark: str


@dataclass(frozen=True)
class Command:
    """Command of a page.

    Attributes:
        page: Path of the page, relative to the project.
        line: Number of the command's first line in the page.
        text: The command, which may have several lines.
        mark: Why the command is not run, or the path of the test that runs it; empty if the proof
            runs it.
    """

    page: str
    line: int
    text: str
    mark: str


def pages() -> list[Path]:
    """Return README, CHANGELOG.md, SECURITY.md and all pages below `docs`."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def manuals() -> list[Path]:
    """Return the pages whose commands the proof runs, in the order in which a reader meets them.

    A translation is not run: it has the same commands as its page in English
    (``tests/proofs/docs/translations.py``).
    """
    found = [ROOT / "README.md"]
    for kind in ("tutorial", "how-to"):
        found += sorted((ROOT / "docs" / kind).rglob("*.md"))
    return [path for path in found if original(path) is None]


def original(path: Path) -> Path | None:
    """Return the page in English of a translation such as `page.zh.md`; None for other pages."""
    name = _TRANSLATION.fullmatch(path.name)
    return path.with_name(f"{name[1]}.md") if name else None


def blocks(path: Path, text: str | None = None) -> list[Block]:
    """Return the code blocks of a page in their order.

    Args:
        path: Path of the page.
        text: Text of the page, if it is not the file's.
    """
    text = path.read_text(encoding="utf-8") if text is None else text
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    found = []
    for match in _FENCE.finditer(text):
        above = text[: match.start()].rstrip()
        marks = [mark for mark in MARK.finditer(above) if mark.end() == len(above)]
        body = match[4]
        if match[1]:
            body = re.sub(rf"^{match[1]}", "", body, flags=re.M)
        found.append(
            Block(
                page=name,
                line=text.count("\n", 0, match.start(4)) + 1,
                language=match[3].strip(),
                text=body,
                mark=" ".join(marks[-1][2].split()) if marks else "",
            )
        )
    return found


def commands(path: Path, text: str | None = None) -> list[Command]:
    """Return the commands of a page in their order.

    Args:
        path: Path of the page.
        text: Text of the page, if it is not the file's.
    """
    return [command for block in blocks(path, text) for command in commands_of(block)]


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a block, none if the block is not of a shell.

    A command ends with its line, unless the line ends with a backslash or begins a here-document.
    In a `console` block commands begin with `$`, all other lines are output.
    """
    if block.language not in SHELLS:
        return
    lines = iter(enumerate(block.text.splitlines(), start=block.line))
    for number, line in lines:
        if block.language == "console" and not line.startswith("$ "):
            continue
        whole = line.removeprefix("$ ")
        if not whole.strip() or whole.lstrip().startswith("#"):
            continue
        while whole.endswith("\\"):
            whole += "\n" + next(lines)[1]
        if (begin := _HEREDOC.search(whole)) is not None:
            for _, rest in lines:
                whole += "\n" + rest
                if rest.strip() == begin[1]:
                    break
        yield Command(block.page, number, whole, block.mark)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: those of its headings, and its own."""
    bare = _FENCE.sub("", text)
    seen: Counter[str] = Counter()
    found = set(_OWN_ANCHOR.findall(bare))
    for heading in _HEADING.findall(bare):
        name = anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures, without code."""
    bare = re.sub(r"(`+)[^`\n]+?\1(?!`)", "`code`", _FENCE.sub("", text))
    return _LINK.findall(bare)


def dead_links(path: Path, text: str | None = None) -> list[str]:
    """Return the links of a page that lead nowhere in the project.

    Args:
        path: Path of the page.
        text: Text of the page, if it is not the file's.
    """
    text = path.read_text(encoding="utf-8") if text is None else text
    return [link for link in links(text) if not _is_alive(path, text, link)]


def _is_alive(path: Path, text: str, link: str) -> bool:
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return True
    name, _, fragment = link.partition("#")
    if not name:
        return fragment in anchors(text)
    target = (path.parent / name).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        return False
    if not fragment or target.suffix != ".md":
        return True
    return fragment in anchors(target.read_text(encoding="utf-8"))
