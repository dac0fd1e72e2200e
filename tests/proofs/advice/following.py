"""Follow a cure: a check finds a fault, somebody does what the cure says, and the check runs again.

The row of docs/reference/errors.md is found from the fault or from the message, so that a text
that is reworded needs no edit of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from gpu_rules.faults import FaultError
from tests.proofs.advice.origins import Origins, Words
from tests.proofs.advice.rows import Record

Check = Callable[[], Iterable[Any]]
"""Function that runs a check and returns its faults or messages; it may also raise a fault."""


def follow_cure(cure: str, broken: Check, cured: Check, record: Record) -> None:
    """Follow the cure of a fault: the fault is gone, and no new one comes.

    Args:
        cure: Words of the cure.
        broken: Check in the state that has the fault.
        cured: The same check after the act that the cure names.
        record: Fixture that counts the row of the fault.
    """
    origins = Origins()
    before = origins.watch(lambda: texts(broken))
    made = {
        words: anchor
        for words, anchor in origins.rows.items()
        if cure in words[2] and any(_stands_in(words, text) for text in before)
    }
    assert len(made) == 1, (cure, before, made)
    ((words, anchor),) = made.items()
    after = texts(cured)
    assert [text for text in after if _stands_in(words, text)] == []
    assert [text for text in after if text not in before] == []
    record("advice", ("cure", anchor, True))


def texts(check: Check) -> list[str]:
    """Return the messages of a check, also those of an error that it raises."""
    try:
        return [str(one) for one in check()]
    except FaultError as error:
        return [str(fault) for fault in error.faults]


def _stands_in(words: Words, text: str) -> bool:
    found, wanted, _ = words
    return found in text and wanted in text


def named(table: Mapping[str, Any]) -> list[Any]:
    """Return the parameters of a table by name, marked as tests that count rows themselves."""
    return [
        pytest.param(value, id=name, marks=pytest.mark.advice("several"))
        for name, value in table.items()
    ]
