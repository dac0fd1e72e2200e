"""The report as one HTML file that loads nothing and runs no script. Pure functions.

Each text from outside is escaped, made printable and cut; each table and the map are bounded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, tostring

from gpu_cluster.change.document import (
    ClusterChange,
    Direction,
    Document,
    NodeChange,
    Outcome,
    Problem,
    Statement,
    stopping,
)
from gpu_cluster.change.names import listed
from gpu_cluster.change.text import (
    fate_text,
    headline,
    health_text,
    lines,
    numbers,
    statement_text,
)
from gpu_cluster.commands.report.element import Child, element, shown, table
from gpu_cluster.commands.report.gpu_map import NodeGpus, PoolGpus, State, totals
from gpu_cluster.commands.report.software import Software
from gpu_cluster.validation.measurement import Outcome as Figure
from gpu_cluster.validation.measurement import slowest_first
from gpu_rules.printable import counted

STYLE: Final = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
ROWS = 100
"""Maximum number of rows of an HTML table; further rows are only counted."""
NODES = 4000
"""Maximum number of nodes on the map; further nodes are only counted."""
CELLS = 32
"""Maximum number of a node's GPUs that the map draws; the map's text counts all GPUs."""
SLOWEST = 20
"""Maximum number of nodes in the table of a user-defined test; the slowest nodes are kept."""
LEGEND: Final = {
    State.COMPUTED: ("C", "c", "ran a kernel"),
    State.SIMULATED: ("S", "s", "a simulator pretended that it ran a kernel"),
    State.DEFERRED: ("W", "w", "a pod uses it, so its validation waits"),
    State.ADVERTISED: ("A", "a", "pods can request it; no kernel ran on it"),
    State.DECLARED: ("D", "d", "the stack file declares it; its node does not advertise it"),
    State.UNHEALTHY: ("U", "u", "withdrawn by its node, or excluded by the stack file"),
    State.MAINTENANCE: ("M", "m", "its node is in maintenance"),
}
"""Letter, class and meaning of each state."""
SECTIONS: Final = {
    "gpus": "GPUs",
    "change": "What would change",
    "findings": "Findings",
    "figures": "Figures",
    "versions": "Versions",
}
"""Titles of the page's sections, by the section's HTML `id`."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Content of the report's HTML page.

    Attributes:
        document: What a run would change.
        pools: GPUs of each pool.
        software: Versions on the nodes.
        figures: Results of user-defined tests.
        day: Date of the report.
        unknown: What could not be read, and why.
    """

    stack: str
    document: Document
    pools: tuple[PoolGpus, ...]
    software: tuple[Software, ...] = ()
    figures: tuple[Figure, ...] = ()
    day: date
    unknown: tuple[str, ...] = ()


def page(report: Report) -> str:
    """Return the report's HTML page; the output is deterministic."""
    title = f"GPUs of stack {shown(report.stack)}"
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        # `http-equiv` can't be a keyword argument; `element` turns underscores into hyphens.
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", name_="referrer", content="no-referrer"),
        element("title", title),
        element("style", STYLE),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element(
            "header",
            element("h1", title),
            *_failure(report.document),
            *_health(report.document),
            element("p", _summary(report)),
        ),
        element("nav", element("ul", *_links()), aria_label="Sections"),
        element("main", *_sections(report), id="content", tabindex="-1"),
        element(
            "footer",
            *_health(report.document),
            element("p", f"Created on {report.day} by gpu-cluster report."),
        ),
    )
    text = tostring(element("html", head, body, lang="en"), encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{text}\n"


def _health(document: Document) -> Iterator[Element]:
    """Yield the sentence about GPUs, with which each command begins and ends."""
    if text := health_text(document.clusters):
        is_lacking = any(cluster.unusable for cluster in document.clusters)
        yield element("p", f"{shown(text)}.", **({"class_": "bad"} if is_lacking else {}))


def _links() -> Iterator[Element]:
    for name, title in SECTIONS.items():
        yield element("li", element("a", title, href=f"#{name}"))


def _sections(report: Report) -> Iterator[Element]:
    contents = {
        "gpus": _gpus(report),
        "change": _change(report.document),
        "findings": _findings(report.document),
        "figures": _figures(report.figures),
        "versions": _versions(report),
    }
    for name, children in contents.items():
        heading = element("h2", SECTIONS[name], id=name)
        yield element("section", heading, *children, aria_labelledby=name)


def _summary(report: Report) -> str:
    """Return a one-sentence summary of the report."""
    state_totals = totals(node for pool in report.pools for node in pool.nodes)
    nodes = sum(len(pool.nodes) for pool in report.pools)
    changes = "; ".join(map(headline, report.document.clusters))
    outcome = {
        Outcome.UNCHANGED: "A run would change nothing.",
        Outcome.CHANGED: f"What a run would change: {changes or 'see below'}.",
        Outcome.FAILED: "",
    }
    states = _states(state_totals.items()) or "no GPU"
    return shown(f"{counted(nodes, 'node')}: {states}. {outcome[report.document.outcome]}".rstrip())


def _failure(document: Document) -> Iterator[Element]:
    """Yield the reasons why a run would fail, and the parts that were not inspected."""
    if document.outcome is Outcome.FAILED:
        problems = stopping(document.clusters, document.faults, document.rules)
        words = "A run would fail" if problems else "The preview failed"
        cause = shown(document.cause) or "see the findings"
        yield element("p", f"{words}: {cause}", class_="bad")


def _states(numbers: Iterable[tuple[State, int]]) -> str:
    return ", ".join(f"{number} {_word(state)}" for state, number in numbers if number)


def _word(state: State) -> str:
    return "in maintenance" if state is State.MAINTENANCE else state.value


def _gpus(report: Report) -> Iterator[Element]:
    for reason in report.unknown:
        yield element("p", shown(reason), class_="bad")
    nodes_left = NODES
    for pool in report.pools:
        yield from _pool(pool, nodes_left)
        nodes_left = max(0, nodes_left - len(pool.nodes))
    state_totals = totals(node for pool in report.pools for node in pool.nodes)
    rows = [
        (_cell(state, ""), _word(state), str(state_totals[state]), meaning)
        for state, (_, _, meaning) in LEGEND.items()
        if state_totals[state]
    ]
    if rows:
        caption = "States of GPUs. ×n after a letter: n containers can share the GPU."
        yield from table(caption, ("letter", "state", "GPUs", "meaning"), rows, ROWS)


def _pool(pool: PoolGpus, most: int) -> Iterator[Element]:
    yield element("h3", f"Pool {shown(pool.name)}")
    states = _states(totals(pool.nodes).items())
    yield element("p", f"{counted(len(pool.nodes), 'node')}: {states or 'no GPU'}")
    if pool.problem:
        yield element("p", shown(pool.problem), class_="bad")
    if pool.nodes[:most]:
        yield element("ul", *map(_node, pool.nodes[:most]), class_="nodes", role="list")
    if len(pool.nodes) > most:
        yield element("p", f"and {counted(len(pool.nodes) - most, 'node')} more, not drawn")


def _node(node: NodeGpus) -> Element:
    """Return a node in the GPU map: one letter per GPU, and words for screen readers."""
    states = [state for state, number in node.gpus for _ in range(min(number, CELLS))]
    after = f"×{node.shares}" if node.shares > 1 else ""
    cells = element("span", *(_cell(state, after) for state in states[:CELLS]), aria_hidden="true")
    words = [_states(node.gpus)]
    if node.shares > 1:
        words.append(f"each shared by {node.shares} containers")
    notes = [
        shown(node.note),
        f"{node.parts} MIG devices per GPU" if node.parts else "",
        f"deferred: used by {shown(node.held)}" if node.held else "",
    ]
    return element(
        "li",
        element("b", shown(node.name)),
        cells,
        element("span", ", ".join(filter(None, words)), class_="hidden"),
        *(element("small", note) for note in notes if note),
    )


def _cell(state: State, after: str) -> Element:
    letter, style, _ = LEGEND[state]
    return element("i", letter + after, class_=style)


def _change(document: Document) -> Iterator[Element]:
    for cluster in document.clusters:
        if len(document.clusters) > 1:
            yield element("h3", f"Cluster {shown(cluster.name)}")
        yield element("ul", *(element("li", shown(line)) for line in lines(cluster)[:ROWS]))
        yield from _tables(cluster)
    if not document.clusters:
        yield element("p", "No cluster was inspected.")


def _tables(cluster: ClusterChange) -> Iterator[Element]:
    """Yield one HTML table for each kind of change that a run would make."""
    amounts = [
        (shown(pool.pool), shown(name), numbers(found))
        for pool in cluster.pools
        for name, found in [("GPUs", pool.gpus), *((each.name, each) for each in pool.resources)]
    ]
    pods = [
        (shown(f"{pod.namespace}/{pod.name}"), shown(pod.node), str(pod.gpus),
         fate_text(pod))
        for pod in cluster.pods
    ]  # fmt: skip
    gaps = [
        (shown(gap.why), shown(listed(gap.nodes)), str(gap.gpus), str(gap.at_most))
        for gap in cluster.gaps
    ]
    versions = [
        (shown(each.part), shown(listed(each.where)), shown(each.was) or "none",
         shown(each.now) or "none", "downgrade" if each.direction is Direction.DOWNGRADE else "")
        for each in cluster.versions
    ]  # fmt: skip
    files = [(shown(each.what), shown(listed(each.names))) for each in cluster.files]
    kinds = (("change", cluster.changes), ("drift", cluster.drift), ("due", cluster.due))
    statements = [_statement(kind, each) for kind, found in kinds for each in found]
    nodes = map(_changed, cluster.nodes)
    tables: tuple[tuple[str, tuple[str, ...], Sequence[Sequence[Child]]], ...] = (
        ("GPUs and resources of each pool", ("pool", "resource", "number"), amounts),
        ("Pods that are disturbed", ("pod", "node", "GPUs", "what happens"), pods),
        ("GPUs that are gone meanwhile", ("why", "nodes", "GPUs", "at the same time"), gaps),
        ("Nodes", ("node", "pool", "GPUs", "what happens"), [*nodes]),
        ("Versions", ("part", "where", "before", "after", "direction"), versions),
        ("Files on hosts that may be written", ("file", "hosts"), files),
        ("Differences", ("kind", "names", "difference"), statements),
    )
    for caption, head, rows in tables:
        if rows:
            yield from table(caption, head, rows, ROWS)


def _statement(kind: str, statement: Statement) -> tuple[str, str, str]:
    names = f"{statement.subject} {listed(statement.names)}"
    return kind, shown(names), shown(statement_text(statement))


def _changed(node: NodeChange) -> tuple[str, str, str, str]:
    pool = node.pool or "none"
    if node.was != node.pool:
        pool = f"{node.was or 'none'} → {pool}"
    wave = f" in wave {node.wave}" if node.wave else ""
    happens = [
        f"drained{wave}" if node.drained else "",
        "rebooted" if node.rebooted else "",
        "validated" if node.validated else "",
    ]
    gpus = numbers(node.gpus) if node.gpus else "?"
    return shown(node.node), shown(pool), gpus, ", ".join(filter(None, happens)) or "changed"


def _findings(document: Document) -> Iterator[Element]:
    """Yield faults, rule violations and warnings; those that stop a run come first."""
    problems = [*document.faults, *document.rules]
    for cluster in document.clusters:
        problems += [*cluster.faults, *cluster.warnings]
    sorted_problems = sorted(dict.fromkeys(problems), key=lambda problem: not problem.mandatory)
    if sorted_problems:
        head = ("rule", "effect", "place", "text")
        yield from table(
            "Faults, violated rules and advice", head, map(_problem, sorted_problems), ROWS
        )
    else:
        yield element("p", "No fault, and no rule is violated.")


def _problem(problem: Problem) -> tuple[Child, ...]:
    effect = element("span", "stops the run", class_="bad") if problem.mandatory else "advice"
    place = shown(f"{problem.file}:{problem.line}") if problem.line else "none"
    return shown(problem.rule) or "none", effect, place, shown(problem.text)


def _figures(figures: Sequence[Figure]) -> Iterator[Element]:
    """Yield one HTML table for each user-defined test, with the slowest nodes first."""
    by_test: dict[str, list[Figure]] = {}
    for figure in slowest_first(list(figures)):
        by_test.setdefault(figure.test, []).append(figure)
    if not by_test:
        yield element("p", "No test has run.")
    head = ("node", "pool", "figure", "at least", "result", "time")
    for test, test_figures in sorted(by_test.items()):
        yield element("h3", f"Test {shown(test)}")
        caption = f"Slowest first, of {counted(len(test_figures), 'node')}"
        yield from table(caption, head, map(_figure, test_figures), SLOWEST)


def _figure(figure: Figure) -> tuple[Child, ...]:
    result: Child = "simulated" if figure.simulated else "passed"
    if figure.skipped:
        result = f"not run: {shown(figure.skipped)}"
    elif figure.problem:
        result = element("span", f"failed: {shown(figure.problem)}", class_="bad")
    return (
        shown(figure.node),
        shown(figure.pool),
        "none" if figure.figure is None else f"{figure.figure:g}",
        "any" if figure.minimum is None else f"{figure.minimum:g}",
        result,
        shown(figure.at),
    )


def _versions(report: Report) -> Iterator[Element]:
    if not report.software:
        yield element("p", "No version is known.")
        return
    head = ("software", "version", "nodes", "last day of support", "source")
    caption = f"Versions in use, with the last day on which their makers fix them ({report.day})"
    yield from table(caption, head, map(_version, report.software), ROWS)


def _version(software: Software) -> tuple[Child, ...]:
    nodes = f"{len(software.nodes)}: {listed(software.nodes)}" if software.nodes else "declared"
    last: Child = f"{software.last}" if software.last else "not known"
    if software.ended:
        last = element("span", f"{software.last}, ended", class_="bad")
    return (
        software.title,
        shown(software.version),
        shown(nodes),
        last,
        shown(software.source) or "none",
    )
