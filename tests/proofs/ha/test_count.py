"""The summary line of `make test-ha` names only what passed."""

from tests.proofs.count import Outcome
from tests.proofs.ha.count import line


def test_only_what_passed_is_in_the_line() -> None:
    passed, failed = ({"test": outcome} for outcome in (Outcome.PASSED, Outcome.FAILED))
    seen = {
        "made": {"a": passed},
        "upgraded": {"b": passed},
        "restored": {"c": failed},
        "replaced": {"d": passed},
        "kill": {"e": passed, "f": failed},
        "second": {"g": passed},
        "writes": {"110 cp-1": passed, "90 upgraded": passed},
        "pause": {"3.3": passed, "4.1": passed},
    }
    assert line(seen) == (
        "3 control planes made, upgraded and replaced, 1 of 2 kills healed, second run 0 changes, "
        "0 of 200 confirmed writes lost, longest pause 4.1 s"
    )
    assert line({"made": {"a": failed}}) == "3 control planes not made"
