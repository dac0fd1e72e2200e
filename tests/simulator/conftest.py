"""One embedded cluster for all tests here, in a cache and a home folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import simulator
import toolchain
from simulator.control_plane import TOOLS

from .running import CLUSTER, Running, declared

USER_FILE = "apiVersion: v1\nkind: Config\nclusters: []\n"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's home with a kubeconfig, and a cache that is not the user's."""
    tools = toolchain.ensure(*TOOLS)  # in the user's cache: built once
    folders = {str(tool.path.parent) for tool in tools.values()}
    home = tmp_path_factory.mktemp("home")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(USER_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([*sorted(folders), os.environ["PATH"]]))
        patch.setenv("GPU_CLUSTER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HOME", str(home))
        patch.setenv("KUBECONFIG", str(home / ".kube" / "config"))
        yield home


@pytest.fixture(scope="session")
def shared(home: Path) -> Iterator[Running]:
    """The cluster, started once."""
    try:
        yield Running(simulator.up(CLUSTER, declared()))
    finally:
        simulator.down(CLUSTER)


@pytest.fixture
def cluster(shared: Running) -> Iterator[Running]:
    """The cluster as declared, without workloads and faults before and after each test."""
    simulator.up(CLUSTER, declared())
    try:
        yield shared
    finally:
        shared.clear()
