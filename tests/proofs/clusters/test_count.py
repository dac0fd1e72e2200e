"""The summary line of `make test-clusters` counts what passed, and names what was skipped."""

from __future__ import annotations

from tests.proofs.clusters.count import WAYS_IN, line
from tests.proofs.count import Outcome

PASSED, SKIPPED, FAILED = Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILED


def test_the_last_line_counts_what_passed_and_what_was_skipped() -> None:
    said = line(
        {
            "adopted": {name: {"test": PASSED} for name in WAYS_IN[:5]},
            "left": {WAYS_IN[0]: {"test": PASSED, "other": FAILED}, WAYS_IN[1]: {"test": PASSED}},
            "real": {"release": {"test": SKIPPED}},
            "file": {"a": {"a": PASSED}, "b": {"b": PASSED}},
            "objects": {"a": {"a": PASSED}, "b": {"b": SKIPPED}, "c": {"c": FAILED}},
            "stale": {"record": {"test": PASSED}},
            "validated": {"exclusive": {"test": PASSED}},
            "rendered": {"a": {"test": PASSED}, "b": {"test": PASSED}},
            "moved": {"a": {"test": PASSED}, "b": {"test": SKIPPED}},
            "override": {"a": {"test": PASSED}, "b": {"test": FAILED}},
            "pair": {"a": {"test": PASSED}},
        }
    )
    assert said == (
        "5 of 7 adopted and 1 of 7 left without a restart (0 on real kubelets, 1 skipped), "
        "2 of 2 value files load and 1 of 3 give the same objects with real charts, 1 skipped, "
        "1 of 1 stale objects found, 0 of 0 causes named by a real kubelet, 1 ways validated, "
        "2 of 2 transitions rendered, 1 of them on an API server, 1 skipped, "
        "1 of 2 overrides seen, 1 of 1 pairs of feature and platform"
    )
