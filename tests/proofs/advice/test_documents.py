"""Each cure of a stack file's fault is followed: the fault is gone, and no new one comes.

The faults are derived from files that load and from the tables of Helm values, or are those of
files that other tests load. The rows of `edits.yaml` follow cures whose values a reader knows.
`open.tsv` lists the cures that no test can follow yet; a row of docs/reference/errors.md with such
a cure doesn't count as followed. A run of all these tests fails for an entry that nothing needs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.faults import Fault
from tests.proofs.advice import documents, edits, harvest
from tests.proofs.advice.count import open_cures
from tests.proofs.advice.follow import faults_of, follow
from tests.proofs.advice.origins import Origins

OTHER_TESTS = ("loading", "settings", "charts", "platforms", "hosts", "validation")
"""Folders of `tests/components` whose tests load files with faults."""
FOLLOWED = 6
"""Maximum number of faults of one file whose cures are followed."""
Record = Callable[[str, object], None]
Named = Iterable[tuple[str, Any]]


def _kind(fault: Fault) -> tuple[str, ...]:
    """Return the words of a fault without the values of one file."""
    return tuple(
        re.sub(r'"[^"]*"|\d+', "", part) for part in (fault.found, fault.wanted, fault.cure)
    )


def check(named: Named, record: Record) -> None:
    """Follow the cures of documents; count the row of each, and fail for an unlisted cure."""
    unlisted, known = [], open_cures()
    rows: dict[str, bool] = {}
    row_of: dict[tuple[str, ...], str] = {}
    for name, document in named:
        before = faults_of(document)
        if any(_kind(fault) not in row_of for fault in before[:FOLLOWED]):
            # Noting who makes each fault takes as long as the rest, so one of a kind is enough.
            origins = Origins()
            before = origins.watch(lambda given=document: faults_of(given))
            row_of |= {_kind(fault): origins.row_of(fault) for fault in before}
        for fault in before[:FOLLOWED]:
            reason = follow(document, fault, before)
            row = row_of[_kind(fault)]
            if reason and row in edits.followed_rows():
                continue
            if row:
                rows[row] = rows.get(row, True) and not reason
            key = (fault.wanted[:60], fault.cure[:100])
            if reason and key in known:
                record("advice", ("open", "\t".join(key)))
            elif reason:
                unlisted.append(f"{name}: {fault}\n  {reason}\t{key}")
    for row, is_followed in rows.items():
        record("advice", ("cure", row, is_followed))
    assert not unlisted, "\n".join(unlisted[:20])


@pytest.mark.promise("A cure of a stack file's fault removes the fault and brings no new one.")
@pytest.mark.advice("several")
def test_cures_of_files_with_faults_are_followed(record_property: Record) -> None:
    files = ((path.stem, documents.committed(path)) for path in documents.COMMITTED)
    check([(name, each) for name, each in files if each is not None], record_property)


@pytest.mark.slow
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", documents.whole_documents())
def test_cures_of_derived_faults_are_followed(name: str, record_property: Record) -> None:
    document = documents.whole_documents()[name]
    assert faults_of(document) == ()
    check(documents.faulty(document), record_property)


@pytest.mark.slow
@pytest.mark.promise("A cure of a Helm value removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("chart", documents.SECTIONS)
def test_cures_of_helm_values_are_followed(chart: str, record_property: Record) -> None:
    check(documents.values(chart), record_property)


@pytest.mark.full
@pytest.mark.advice("several")
def test_cures_of_faults_of_other_tests_are_followed(
    tmp_path: Path, record_property: Record
) -> None:
    file = tmp_path / "harvest"
    folders = [f"tests/components/{folder}" for folder in OTHER_TESTS]
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.proofs.advice.harvest",
        "-m",
        "not full",
    ]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *folders],
        env={**os.environ, harvest.FILE: str(file)},
        check=False,
        capture_output=True,
    )
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(found) > 200
    check([(f"document {number}", each) for number, each in enumerate(found)], record_property)
