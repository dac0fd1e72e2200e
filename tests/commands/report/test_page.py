"""The report's HTML page: structure, maximum size, and escaping of text from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from gpu_cluster.change.document import ClusterChange, Document, Outcome, Problem
from gpu_cluster.commands.report.gpu_map import State
from gpu_cluster.commands.report.page import LEGEND, SECTIONS, STYLE, Report, page
from tests.commands.forges.hostile import HOSTILE
from tests.commands.report.reports import DAY, hostile, of_size
from tests.components.change.edits import EDITS, document_of

VOID = {"meta"}
LARGEST = 2_000_000
"""Bytes that the page of 1,000 nodes must stay below."""


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, tag: str) -> list[Node]:
        return [node for node in self.walk() if node.tag == tag]

    @property
    def content(self) -> str:
        return self.text + "".join(child.content for child in self.children)


class Tree(HTMLParser):
    """Parse HTML into a tree; fail if an end tag does not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert [node.tag for node in self.open] == ["root"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Node(tag, dict(attrs))
        assert len(made.attributes) == len(attrs)
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data


@cache
def tree(report: Report) -> Node:
    return Tree(page(report)).root


EMPTY = Report(
    stack="dev", document=Document(stack="dev", outcome=Outcome.UNCHANGED), pools=(), day=DAY
)
REPORTS = {
    "4 nodes": lambda: of_size(4),
    "1,000 nodes": lambda: of_size(1000),
    "hostile": lambda: hostile("<script>alert(1)</script>"),
    "nothing": lambda: EMPTY,
}


@pytest.fixture(params=REPORTS)
def report(request: pytest.FixtureRequest) -> Report:
    return REPORTS[request.param]()


def test_the_page_has_landmarks_and_headings_in_order(report: Report) -> None:
    root = tree(report)
    assert [node.attributes["lang"] for node in root.all("html")] == ["en"]
    assert [node.tag for node in root.all("body")[0].children] == [
        "a", "header", "nav", "main", "footer"
    ]  # fmt: skip
    assert root.all("nav")[0].attributes["aria-label"]
    levels = [int(node.tag[1]) for node in root.walk() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for section in root.all("section"):
        (name,) = [node.content for node in section.all("h2")]
        assert SECTIONS[section.attributes["aria-labelledby"] or ""] == name


def test_each_link_has_a_text_and_leads_to_a_part_of_the_page(report: Report) -> None:
    root = tree(report)
    names = [node.attributes["id"] for node in root.walk() if "id" in node.attributes]
    assert len(names) == len(set(names))
    links = root.all("a")
    assert len(links) == len(SECTIONS) + 1
    for link in links:
        assert link.content.strip()
        assert (link.attributes["href"] or "").removeprefix("#") in names


def test_each_table_has_a_caption_and_headers_of_rows_and_columns(report: Report) -> None:
    for table in tree(report).all("table"):
        assert table.all("caption")[0].content
        columns = table.all("thead")[0].all("th")
        assert {node.attributes["scope"] for node in columns} == {"col"}
        assert all(node.content for node in columns)
        for row in table.all("tbody")[0].all("tr"):
            assert row.children[0].attributes == {"scope": "row"}
            assert len(row.children) == len(columns)
            assert row.children[0].content


@pytest.mark.promise("The report loads nothing from elsewhere and runs no script.")
def test_the_page_is_one_file_without_script(report: Report) -> None:
    root = tree(report)
    allowed = {
        "root", "html", "head", "meta", "title", "style", "body", "a", "header", "nav", "main",
        "footer", "section", "h1", "h2", "h3", "p", "ul", "li", "table", "caption", "thead",
        "tbody", "tr", "th", "td", "span", "b", "i", "small", "div",
    }  # fmt: skip
    assert {node.tag for node in root.walk()} <= allowed
    for node in root.walk():
        assert not {"src", "style"} & set(node.attributes)
        assert not any(name.startswith("on") for name in node.attributes)
    assert [node.content for node in root.all("style")] == [STYLE]
    assert not re.search(r"url\(|@import|</|<!--", STYLE)
    policy = root.all("meta")[1].attributes["content"] or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


@pytest.mark.promise("No name of a pod, node or host can become markup in the report.")
@pytest.mark.parametrize("text", [*HOSTILE, "\"'><img src=x onerror=alert(1)>", "</style><b>"])
def test_a_hostile_text_stays_text(text: str) -> None:
    plain = tree(hostile("plain"))
    found = tree(hostile(text))

    def shape(node: Node) -> list[object]:
        return [node.tag, node.attributes, [shape(child) for child in node.children]]

    assert shape(found.all("body")[0]) == shape(plain.all("body")[0])
    assert shape(found.all("head")[0]) == shape(plain.all("head")[0])
    content = "".join(node.content for node in found.all("body"))
    assert all(one.isprintable() for one in content)
    assert len(page(hostile(text))) < 200_000


@pytest.mark.promise("The report says first why a run would fail.")
def test_a_problem_that_stops_the_run_is_the_first_sentence_of_the_page() -> None:
    problem = Problem(text="host gpu-1: found a\nb")
    cluster = ClusterChange(name="c", faults=(problem,))
    document = Document(
        stack="dev", outcome=Outcome.FAILED, clusters=(cluster,), cause="host gpu-1: found a"
    )
    (header,) = tree(replace(EMPTY, document=document)).all("header")
    assert [node.content for node in header.all("p")] == [
        "A run would fail: host gpu-1: found a",
        "0 nodes: no GPU.",
    ]


def test_equal_reports_give_equal_bytes() -> None:
    assert page(of_size(50)) == page(of_size(50))


@pytest.mark.promise("The report of 1,000 nodes is smaller than 2 MB and draws each GPU.")
def test_a_thousand_nodes_are_drawn_within_the_bound() -> None:
    text = page(of_size(1000))
    assert len(text.encode()) < LARGEST
    lists = [node for node in Tree(text).root.all("ul") if node.attributes.get("role")]
    nodes = [item for each in lists for item in each.children]
    assert len(nodes) == 1000
    assert sum(len(node.all("i")) for node in nodes) == 8000


def test_more_nodes_than_the_map_holds_are_counted() -> None:
    small = of_size(4)
    (pool,) = small.pools
    many = replace(pool, nodes=pool.nodes * 25_000)
    text = page(replace(small, pools=(many, many)))
    assert len(text.encode()) < LARGEST
    assert "and 96000 nodes more, not drawn" in text
    assert "and 100000 nodes more, not drawn" in text


def test_states_differ_by_letter_and_not_by_colour_alone() -> None:
    assert set(LEGEND) == set(State)
    assert len({letter for letter, _, _ in LEGEND.values()}) == len(State)


def test_the_legend_has_only_states_that_occur_and_comes_after_the_map() -> None:
    text = page(of_size(4))
    assert "ran a kernel" in text
    assert "its node is in maintenance" not in text
    assert text.index("Pool a100") < text.index("ran a kernel")


def test_the_first_sentence_says_what_a_run_would_change() -> None:
    assert "What a run would change: GPUs " in page(of_size(4))
    assert "would change something" not in page(of_size(4))


def test_the_map_says_in_words_what_it_draws() -> None:
    (nodes,) = [node for node in tree(of_size(4)).all("ul") if node.attributes.get("role")]
    first, second, third, fourth = (node.content for node in nodes.children)
    assert first == "gpu-1CCCCCCCC8 computed"
    assert second == "gpu-2CCCCCCUU6 computed, 2 unhealthy"
    assert third.endswith("5 computed, 3 deferreddeferred: used by 3 of team-a/train-0")
    assert fourth == "gpu-4AAAAAAAA8 advertised"


def test_the_slowest_nodes_come_first_and_the_rest_is_counted() -> None:
    root = tree(of_size(100))
    (table,) = [one for one in root.all("table") if "Slowest" in one.content]
    rows = table.all("tbody")[0].all("tr")
    assert [row.children[0].content for row in rows[:3]] == ["gpu-1", "gpu-2", "gpu-3"]
    assert len(rows) == 20
    assert "and 80 more" in root.content


def test_a_version_after_its_last_day_is_said_to_be_ended() -> None:
    (table,) = [one for one in tree(of_size(4)).all("table") if "Versions in use" in one.content]
    rows = [[cell.content for cell in row.children] for row in table.all("tr")[1:]]
    assert [row[:3] for row in rows] == [
        ["Kubernetes", "v1.34.4", "4: gpu-1..4"],
        ["containerd", "1.7.28", "4: gpu-1..4"],
        ["NVIDIA driver", "550.54.14", "declared"],
        ["NVIDIA driver", "595.91.07", "4: gpu-1..4"],
        ["Ubuntu", "22.04", "4: gpu-1..4"],
    ]
    assert rows[2][3].endswith(", ended")


@pytest.mark.parametrize("name", [name for name in EDITS if "hundred" not in name][::5])
def test_each_edit_gives_a_page_that_is_well_formed(name: str) -> None:
    root = tree(replace(of_size(4), document=document_of(name)))
    assert root.all("main")


def colours(scheme: str) -> dict[str, str]:
    found = dict(re.findall(r"--(\w+): (#\w{6});", STYLE.split(scheme, 1)[1].split("}", 1)[0]))
    assert {"page", "text", "soft", "link", "bad", "box"} <= set(found)
    return found


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.promise("The report's texts have a contrast of at least 7 to 1, light and dark.")
@pytest.mark.parametrize("scheme", [":root", "prefers-color-scheme: dark", "@media print"])
def test_texts_are_readable_light_dark_and_printed(scheme: str) -> None:
    found = colours(scheme)
    for text in ("text", "soft", "link", "bad"):
        for ground in ("page", "box"):
            assert contrast(found[text], found[ground]) >= 7, (text, ground)


def test_letters_of_states_are_readable() -> None:
    for _, style, _ in LEGEND.values():
        (pair,) = re.findall(
            rf"^\.{style} {{ background: (#\w{{6}}); color: (#\w{{6}});", STYLE, re.MULTILINE
        )
        assert contrast(*pair) >= 4.5, style
