"""Fixtures with real API servers for the tests of the admission policies."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from lab.benchmarks.api_server import ApiServer, running
from tests.policies.admission.cluster import CONTEXTS, RUNTIME_CLASSES, WARN, apply, install


@pytest.fixture(scope="session")
def api() -> Iterator[httpx.Client]:
    """Run an API server with admission policies that only warn, for all tests of a process."""
    with running("admission") as server:
        client = server.client
        for name in RUNTIME_CLASSES:
            manifest = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": name}
            apply(client, {**manifest, "metadata": {"name": name}})
        for namespace, context in CONTEXTS.items():
            install(client, namespace, context, WARN)
        yield client


@pytest.fixture(scope="session")
def type_checking() -> Iterator[httpx.Client]:
    """Run an API server without policies, and the controller manager.

    The controller manager checks the types in the CEL of each policy that a test creates.
    """
    with running("types", controllers=True) as server:
        yield server.client


@pytest.fixture
def alone() -> Iterator[ApiServer]:
    """Run an API server and the controller manager for one test, without admission policies."""
    with running("alone", controllers=True) as server:
        yield server
