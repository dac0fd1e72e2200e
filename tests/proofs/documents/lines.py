"""Read `lines.tsv`: what five documents ask of a cluster with GPUs, and what shows it here.

The documents are guides of other people, which are not part of this project. A row has the
document, the number and some words of its line, what the line asks for, and either tests, or words
of the row on the page that says why this program does something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/how-to/troubleshooting.md"
SECTION = "## What guides do and this program doesn't"
"""Section of the page with a row for each line that is left out on purpose."""
DOCUMENTS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "operator": ("y-k8s安装NVIDIA GPU Operator", 26),
        "plugin": ("Nvidia GPU 插件", 22),
        "shares": ("TKEStack GPU 的部署和使用", 23),
        "kubespray": ("Add gpu node using kubespary", 33),
        "bare": ("K8sNvidia", 44),
    }
)
"""Title of each document, and the number of its lines that ask for something."""


@dataclass(frozen=True)
class Line:
    """Line of a document.

    Attributes:
        document: Key of `DOCUMENTS`.
        number: Number of the line, from 1.
        words: Words of the line, as they stand there.
        asks: What the line asks for or says.
        page: Words of the first cell of the row on `PAGE`; empty if the line is tried.
        tests: Ids of tests, without the parameters if all of them count.
    """

    document: str
    number: int
    words: str
    asks: str
    page: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the line in the count, such as `operator 22`."""
        return f"{self.document} {self.number}"


@cache
def lines() -> tuple[Line, ...]:
    """Return the rows of the table in their order.

    Raises:
        ValueError: A row has another number of columns, or no whole number in its second one.
    """
    text = Path(__file__).with_name("lines.tsv").read_text(encoding="utf-8")
    read = []
    for row in text.splitlines():
        document, number, words, asks, page, tests = row.split("\t")
        ids = tuple(tests.split("; ")) if tests else ()
        read.append(Line(document, int(number), words, asks, page, ids))
    return tuple(read)


def files() -> tuple[str, ...]:
    """Return the files of all tests that the table names, apart from those of this folder."""
    named = {test.partition("::")[0] for line in lines() for test in line.tests}
    return tuple(sorted(path for path in named if not path.startswith("tests/proofs/documents/")))


def reasons() -> dict[str, str]:
    """Return the rows of the page's section: what a guide says, and why it isn't done here."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"\n{SECTION}\n")
    rows = [row for row in section.partition("\n## ")[0].splitlines() if row.startswith("| ")]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {guide: why for guide, why in cells if not guide.startswith("--")}
