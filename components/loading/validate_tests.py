"""Check that nodes have enough GPUs for the user-defined tests."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.valid_sections import ValidSections
from components.settings.validation import ValidationSettings
from policies.faults import Fault, fault


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for tests that need more GPUs than any node has."""
    validation = sections.sections.get("validation")
    if not isinstance(validation, ValidationSettings) or not sections.complete:
        return
    most = max((pool.gpus_per_node for pool in sections.pools.values()), default=0)
    for name, test in validation.tests.items():
        if test.gpus > most:
            yield fault(
                ("validation", "tests", name, "gpus"),
                f"{test.gpus}, and no pool has so many GPUs on a node",
                f"at most {most}: a test runs on one node",
                "write fewer",
            )
