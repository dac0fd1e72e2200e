"""The summary line of `make test-logins` counts what passed, and names what was skipped."""

from tests.proofs.count import Outcome
from tests.proofs.logins.count import line


def test_a_failure_and_a_skip_are_counted_as_what_they_are() -> None:
    passed, failed, skipped = (
        {"test": outcome} for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED)
    )
    seen = {
        "situation": {"a": passed, "b": failed, "c": skipped},
        "healed": {"d": passed, "e": failed},
        "message": {"f": passed},
    }
    assert line(seen) == (
        "1 of 3 situations named by their stage (1 skipped), 1 healed by a second try, 0 of 4 "
        "hand-overs, 1 of 1 first messages within three lines"
    )
