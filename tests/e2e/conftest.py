"""One project for all end-to-end tests: its cluster is started once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.project import Project, started


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose embedded cluster and hosts run and whose stack is not up yet."""
    with started(Project.make(tmp_path_factory.mktemp("e2e"), f"e2e-{os.getpid()}")) as made:
        yield made
