"""Fixture with one project for all end-to-end tests; its embedded cluster is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guard import own_name
from tests.proofs.e2e.project import Project, started


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Start the embedded cluster and the hosts of a project whose stack isn't deployed yet."""
    with started(Project.make(tmp_path_factory.mktemp("e2e"), own_name("e2e"))) as made:
        yield made
