"""The summary line of `make test-advice` counts what passed, and each text has a mark."""

from __future__ import annotations

from tests.error_texts import ErrorText, Mark, errors, of_module, of_script
from tests.proofs.advice.count import line
from tests.proofs.count import Outcome

UNMARKED = 9
"""Number of texts without a cure and without a mark; it may only fall."""
CURES = 434
"""Number of cures when the marks began; it may not fall."""


def test_a_failure_and_a_skip_are_counted_as_what_they_are() -> None:
    passed, failed, skipped = (
        {"test": outcome} for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED)
    )
    seen = {
        "cure": {"a": passed, "b": failed},
        "cause": {"c": passed, "d": passed},
        "real": {"e": passed, "f": skipped},
    }
    assert " 1 of " in line(seen)
    assert line(seen).endswith("2 of 2 causes, 1 by real parts (1 skipped)")


def test_each_text_has_a_cure_or_a_mark_and_few_cures_are_acts_outside() -> None:
    marks = [text.mark for text in errors()]
    cures, outside = marks.count(Mark.CURE), marks.count(Mark.OUTSIDE)
    assert marks.count(Mark.NONE) <= UNMARKED
    assert cures + outside >= CURES
    assert outside * 5 <= cures + outside
    texts = [text for text in errors() if text.mark is Mark.OUTSIDE]
    assert [text for text in texts if not text.cure] == []


def test_a_mark_stands_where_the_text_is_made() -> None:
    module = """
class BrokenError(ValueError):
    cure = Outside("replace the part")

def check(name):
    raise FaultError(Fault(name, "no such part", "a part", Outside("order it from its vendor")))
    raise PartError("a part of another text")
    raise BrokenError("a broken part was found")
    raise OtherError("a part is gone; cure: look for it")
"""
    found = [(text.cure, text.mark) for text in of_module("components/x.py", module)]
    assert found == [
        ("order it from its vendor", Mark.OUTSIDE),
        ("", Mark.PART),
        ("", Mark.NONE),  # The classes of the project are read, not those of this text.
        ("look for it", Mark.CURE),
    ]
    script = 'fail "found no part; wanted one; declare it"\nfail_act "a part is broken; order it"\n'
    assert list(of_script("components/x.sh", script)) == [
        ErrorText("components/x.sh", "found no part; wanted one", "declare it", Mark.CURE),
        ErrorText("components/x.sh", "a part is broken", "order it", Mark.OUTSIDE),
    ]
