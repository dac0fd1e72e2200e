"""Cures whose values a reader knows are followed as their text says, by the rows of `edits.yaml`.

A row breaks a stack file, names the cure, and has the edit. Each value of the edit stands in the
message, unless the row says why the reader knows it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.proofs.advice.edits import ROWS, Json, after, fault_of, leaves
from tests.proofs.advice.follow import is_same


@pytest.mark.promise("A cure of a stack file's fault removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("row", ROWS, ids=[str(row["cure"])[:60] for row in ROWS])
def test_a_cure_is_followed_as_its_text_says(row: Json, record_property: Any) -> None:
    fault, anchor, before = fault_of(row)
    values = leaves([row.get("edit", {}), row.get("then", {})])
    unknown = [text for text in values if text not in str(fault)]
    assert not unknown or row.get("own"), (unknown, str(fault))
    remaining = after(row)
    left = [one for one in remaining if is_same(one, fault)]
    new = [one for one in remaining if not any(is_same(one, old) for old in before)]
    assert [*left, *new] == [], str(fault)
    if anchor:
        record_property("advice", ("cure", anchor, True))
