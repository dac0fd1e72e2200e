"""Pytest fixture that gets a host situation and counts it in the summary of `make test-hosts`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proofs.world.hosts.rows import Situation, rows


@pytest.fixture
def situation(request: pytest.FixtureRequest) -> Callable[[str, str], Situation]:
    """Return a function that returns a situation by file and name, and counts it in the summary."""

    def row(kind: str, name: str) -> Situation:
        found = rows(kind)[name]
        corrected = " corrected" if found.corrected else ""
        request.node.user_properties.append(("situation", f"{kind}: {name}{corrected}"))
        return found

    return row
