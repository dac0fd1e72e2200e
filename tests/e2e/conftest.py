"""One project for all end-to-end tests: its cluster is started once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

import simulator
import toolchain
from simulator import hosts as simulated_hosts

from .project import Project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose embedded cluster and hosts run and whose stack is not up yet."""
    stack = f"e2e-{os.getpid()}"
    made = Project.make(tmp_path_factory.mktemp("e2e"), stack)
    try:
        done = made.command("start")
        assert done.returncode == 0, done.stdout
        yield made
    finally:
        simulator.down(stack)
        simulated_hosts.down(stack)
        embedded = toolchain.cache_dir() / "embedded"
        shutil.rmtree(embedded / stack, ignore_errors=True)
        shutil.rmtree(toolchain.cache_dir() / "tmp" / stack, ignore_errors=True)
        for left in (f"{stack}.salt", f"{stack}.cluster", f".{stack}.lock"):
            (embedded / left).unlink(missing_ok=True)
