"""One project for all end-to-end tests: its cluster is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.project import Project, started
from tests.guard import own_name


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose embedded cluster and hosts run and whose stack is not up yet."""
    with started(Project.make(tmp_path_factory.mktemp("e2e"), own_name("e2e"))) as made:
        yield made
