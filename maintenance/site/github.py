r"""Rewrite pages so that Python-Markdown, which mkdocs uses, reads them as GitHub does.

GitHub follows CommonMark. Python-Markdown wants four spaces before everything inside a list item,
blank lines around lists, tables and code blocks, and no file name after a code block's language. It
knows fewer escapes: not ``\<``, and not ``\|`` in code in a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKER = re.compile(r"([-+*]|\d+[.)])( +|$)")
_COMMENT = re.compile(r"\s*<!--.*-->\s*", re.S)
_CODE = re.compile(r"((?<!`)(`+)(?!`).*?(?<!`)\2(?!`))")
_ESCAPED = re.compile(r"\\([<\"$%&',/:;=?@^~])")
"""Characters that a backslash escapes in CommonMark 0.31, and not in Python-Markdown 3."""
_STARTS = ("bullet_list_open", "ordered_list_open", "table_open")


@dataclass(frozen=True)
class _Item:
    """Item of a list.

    Attributes:
        begin: Number of its first line.
        end: Number of the line after its last one.
        depth: 1 for an item of a list that is in no other list.
        column: Column at which its content begins.
        marker: Its bullet or number.
    """

    begin: int
    end: int
    depth: int
    column: int
    marker: str


def parse(text: str) -> list[Token]:
    """Return the tokens of a page, read as GitHub reads it."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures in their order, without code."""
    inside = [child for token in parse(text) for child in token.children or ()]
    link_targets = [token.attrGet("href") or token.attrGet("src") for token in inside]
    return [str(target) for target in link_targets if target]


def for_mkdocs(text: str) -> str:
    """Return a page that Python-Markdown reads as GitHub reads the given one."""
    lines = text.splitlines()
    tokens = parse(text)
    items = _list_items(tokens, lines)
    before: set[int] = set()
    tables: set[int] = set()
    for token in tokens:
        if token.map is None:
            continue
        begin, end = token.map
        nested = any(item.begin < begin < item.end for item in items)
        if token.type in _STARTS and not (nested and token.type != "table_open"):
            before.add(begin)
        elif token.type == "html_block" and _COMMENT.fullmatch(token.content):
            lines[begin:end] = [""] * (end - begin)
        elif token.type == "fence" and " " in token.info.strip():
            language, _, name = token.info.strip().partition(" ")
            lines[begin] = lines[begin].replace(token.info.strip(), f'{language} title="{name}"')
        if token.type == "fence":
            before |= {begin, end}
        elif token.type == "table_open":
            tables |= set(range(begin, end))
        elif token.type == "inline":
            for number in range(begin, end):
                lines[number] = _remove_escapes(lines[number], in_table=number in tables)
    # The first line after an item of several parts is the next item only after a blank line.
    parted = {number for number, line in enumerate(lines) if not line.strip()} | before
    before |= {item.end for item in items if parted & {*range(item.begin, item.end)}}
    written: list[str] = []
    for number, line in enumerate(lines):
        if number in before and line.strip() and written and written[-1].strip():
            written.append("")
        written.append(_indent_line(number, line, items))
    return "\n".join(written) + "\n"


def _remove_escapes(line: str, *, in_table: bool) -> str:
    """Return a line without the escapes that Python-Markdown does not know.

    Args:
        line: The line, which is not of a code block.
        in_table: Whether the line is a row of a table.
    """
    pieces = _CODE.split(line)
    # The pattern yields three parts for each piece of code: the text before it, its backticks, the
    # code.
    for number in range(0, len(pieces), 3):
        pieces[number] = _ESCAPED.sub(lambda match: f"&#{ord(match[1])};", pieces[number])
    if in_table:
        pieces[1::3] = [code.replace("\\|", "|") for code in pieces[1::3]]
    return "".join(piece for number, piece in enumerate(pieces) if number % 3 != 2)


def _list_items(tokens: list[Token], lines: list[str]) -> list[_Item]:
    """Return all items of lists, an outer one before those inside."""
    items: list[_Item] = []
    outer: list[_Item] = []
    for token in tokens:
        if token.type == "list_item_close":
            outer.pop()
        if token.type != "list_item_open" or token.map is None:
            continue
        begin, end = token.map
        column = outer[-1].column if outer else 0
        after_marker = lines[begin][column:]
        column += len(after_marker) - len(after_marker.lstrip())
        marker = _MARKER.match(lines[begin], column)
        if marker is None:
            raise ValueError(f"no list item: {lines[begin]}")
        outer.append(_Item(begin, end, len(outer) + 1, marker.end(), marker[1]))
        items.append(outer[-1])
    return items


def _indent_line(number: int, line: str, items: list[_Item]) -> str:
    """Return a line with four spaces for each list item that it is in."""
    around = [item for item in items if item.begin <= number < item.end]
    if not around or not line.strip():
        return line
    item = around[-1]
    if number == item.begin:
        return f"{'    ' * (item.depth - 1)}{item.marker} {line[item.column :]}"
    # A continuation line of a paragraph may be indented less than the item's content.
    content = line[item.column :] if not line[: item.column].strip() else line.lstrip()
    return "    " * item.depth + content
