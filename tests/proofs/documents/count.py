"""Summary line of `make test-documents`.

Kinds of the marker `documents`:

- `line`: a line of a document that a test tries. `lines.tsv` names the tests of each line; they
  get the marker when they are collected.
- `page`: a line that is left out on purpose, whose reason stands on a page.
- `contradiction`: a pair of declared values that don't go together, found without a host.
- `recipe`: a recipe for sources of other people, tried against a commit of them.
- `cure`: a setting that the page on troubleshooting advises, on one platform; it is not counted.
- `hami`: a case in which HAMi's scheduler and the simulated one agree.
- `kubelet`: the same for a pod of a real kubelet and API server; it is not counted.
- `how-to`: the settings of a how-to, with hosts that report real facts; it is not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

from tests.proofs.count import Count, Outcome, Results, has_passed, number_passed, of_all
from tests.proofs.documents.lines import Line, lines


def is_tried(line: Line, outcomes: Mapping[str, Outcome]) -> bool:
    """Return whether each test that the table names for a line was run, and all passed.

    Args:
        line: Row of the table.
        outcomes: Outcomes of the line's tests by their ids.
    """
    run = {*outcomes, *(test.partition("[")[0] for test in outcomes)}
    return bool(line.tests) and run.issuperset(line.tests) and has_passed(outcomes)


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; what was skipped shows nothing."""

    def of(kind: str) -> Results:
        return seen.get(kind, {})

    tried = sum(is_tried(each, of("line").get(each.name, {})) for each in lines())
    told = number_passed(of("page"))
    return (
        f"{tried + told} of {len(lines())} lines ({tried} tried, {told} on purpose with a page), "
        f"{of_all(of('contradiction'))} contradictions found without a host, "
        f"{of_all(of('recipe'))} recipes tried, "
        f"hami {of_all(of('hami'))} cases as the real scheduler"
    )


class Lines:
    """Pytest plugin that gives the tests of the table their markers."""

    def __init__(self, table: Iterable[Line]) -> None:
        self.names: defaultdict[str, list[str]] = defaultdict(list)
        for each in table:
            for test in each.tests:
                self.names[test].append(each.name)

    # Before pytest selects tests by their markers, and before `Count` reads them.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark each test with the lines that name it, with or without its parameters."""
        for item in items:
            test = item.nodeid.partition("[")[0]
            for name in {*self.names.get(item.nodeid, ()), *self.names.get(test, ())}:
                item.add_marker(pytest.mark.documents("line", name))


def counting() -> tuple[Lines, Count]:
    """Return the plugins that mark and count what is shown of the documents."""
    return Lines(lines()), Count("documents", line)
