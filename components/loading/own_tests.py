"""Tests of one's own need nodes that can run them."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.parts import Parts
from components.settings.validation import Validation
from policies.faults import Fault, fault


def problems(parts: Parts) -> Iterator[Fault]:
    """Tests with more GPUs than any node has."""
    validation = parts.sections.get("validation")
    if not isinstance(validation, Validation) or not parts.complete:
        return
    most = max((pool.gpus_per_node for pool in parts.pools.values()), default=0)
    for name, test in validation.tests.items():
        if test.gpus > most:
            yield fault(
                ("validation", "tests", name, "gpus"),
                f"{test.gpus}, and no pool has so many GPUs on a node",
                f"at most {most}: a test runs on one node",
                "write fewer",
            )
