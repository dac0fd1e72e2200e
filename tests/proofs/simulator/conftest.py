"""Fixtures with one embedded cluster for all simulator tests, in a temporary home and cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_cluster.validation.component import priority_class
from gpu_cluster_lab import simulator, toolchain
from gpu_cluster_lab.simulator.control_plane import TOOLS
from tests.proofs.simulator.running import CLUSTER, NAMESPACE, Running, declared, until
from tests.proofs.simulator.validating import JOBS, PRIORITIES, SPACES, Stack
from tests.simulated import simulate

USER_FILE = "apiVersion: v1\nkind: Config\nclusters: []\n"


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables for a temporary home with a kubeconfig and a temporary cache."""
    # Take the tools from the user's cache, because building them again would take long.
    tools = toolchain.ensure(*TOOLS)
    folders = {str(tool.path.parent) for tool in tools.values()}
    home = tmp_path_factory.mktemp("home")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(USER_FILE)
    return {
        "PATH": os.pathsep.join([*sorted(folders), os.environ["PATH"]]),
        "GPU_CLUSTER_CACHE": str(tmp_path_factory.mktemp("cache")),
        "HOME": str(home),
        "KUBECONFIG": str(home / ".kube" / "config"),
    }


@contextmanager
def lent(places: dict[str, str]) -> Iterator[None]:
    """Set environment variables while the context lasts, so that later tests aren't affected."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in places.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def home(places: dict[str, str]) -> Iterator[Path]:
    """Set the environment of the temporary home and yield the home's path."""
    with lent(places):
        yield Path(places["HOME"])


@pytest.fixture(scope="session")
def shared(places: dict[str, str]) -> Iterator[Running]:
    """Start the embedded cluster once for all simulator tests."""
    try:
        with lent(places):
            running = Running(simulate(CLUSTER, declared()))
        yield running
    finally:
        with lent(places):
            simulator.down(CLUSTER)


@pytest.fixture
def cluster(shared: Running) -> Iterator[Running]:
    """Yield the cluster with its declared nodes; afterwards remove workloads and faults."""
    simulate(CLUSTER, declared())
    try:
        yield shared
    finally:
        shared.clear()


@pytest.fixture
def stack(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """Yield the cluster with the device plugin on three nodes, so that validation can run."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.plane.kubeconfig))
    cluster.request("POST", SPACES, {"metadata": {"name": NAMESPACE}})
    cluster.request("POST", PRIORITIES, priority_class(NAMESPACE))
    cluster.deploy_plugin()
    made = Stack(cluster)
    yield made
    made.forget()
    cluster.request("DELETE", f"{PRIORITIES}/{NAMESPACE}")
    cluster.request("DELETE", JOBS, propagationPolicy="Background")
    cluster.request("DELETE", f"{SPACES}/{NAMESPACE}")
    until(
        lambda: [item["metadata"]["name"] for item in cluster.items(SPACES)],
        lambda names: NAMESPACE not in names,
    )
