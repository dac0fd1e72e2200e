"""Build HTML elements; the standard library escapes each text and attribute. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias
from xml.etree.ElementTree import Element

from gpu_rules.printable import printable

Child: TypeAlias = "Element | str"
LONGEST = 400
"""Maximum number of characters of an untrusted text; a longer text is truncated."""


def element(name: str, *children: Child, **attributes: str) -> Element:
    """Return an HTML element.

    Args:
        name: Name of the element.
        children: Elements and texts, in order. Texts may be untrusted.
        attributes: Attributes of this program; a trailing underscore is removed from the name, and
            other underscores become hyphens.
    """
    made = Element(
        name, {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    )
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return made


def shown(text: str) -> str:
    """Return untrusted text as one line without invisible characters, truncated if too long."""
    return printable(text, LONGEST)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], most: int
) -> list[Element]:
    """Return an HTML table with row headers, and a note if rows were omitted.

    Args:
        caption: What the table shows.
        head: Titles of the columns.
        rows: Cells of each row.
        most: Maximum number of rows; further rows are only counted.
    """
    every = list(rows)
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *(element("th", text, scope="col") for text in head))),
        element("tbody", *map(_row, every[:most])),
    )
    # A narrow window scrolls the table; it does not break words.
    wide = element("div", made, class_="wide", role="group", aria_label=caption, tabindex="0")
    if len(every) <= most:
        return [wide]
    return [wide, element("p", f"and {len(every) - most} more")]


def _row(cells: Sequence[Child]) -> Element:
    first, *others = cells
    return element(
        "tr", element("th", first, scope="row"), *(element("td", cell) for cell in others)
    )
