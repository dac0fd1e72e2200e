"""Fixture that counts each situation in the last line of `make test-hosts`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proofs.world.hosts.rows import Situation, rows


@pytest.fixture
def situation(request: pytest.FixtureRequest) -> Callable[[str, str], Situation]:
    """Return a function that returns a row by kind and name, and has it counted."""

    def row(kind: str, name: str) -> Situation:
        found = rows(kind)[name]
        corrected = " corrected" if found.corrected else ""
        request.node.user_properties.append(("situation", f"{kind}: {name}{corrected}"))
        return found

    return row
