"""Helm release records that a killed run has left, on a real API server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from gpu_cluster.findings import Finding, Findings
from gpu_cluster.inspection.observed_cluster import _observe_platform
from gpu_cluster.kubernetes.api import ClusterError, connect
from gpu_cluster.kubernetes.labels import LABELS, MANAGER
from gpu_cluster.platforms.requests import HelmRelease, PresenceRequest
from gpu_cluster.release import clear, presence
from gpu_cluster.release.helm_record import TYPE, decode_release, encode_release
from tests.findings import found
from tests.proofs.simulator.running import CLUSTER, Running
from tests.proofs.simulator.validating import SPACES

NAME = "nvidia-device-plugin"
SECRETS = "/api/v1/namespaces/default/secrets"
CONTEXT = f"gpu-cluster-{CLUSTER}"
INPUTS = {"name": NAME, "namespace": "default", "values": {}}
NOBODY = clear.Others(context=CONTEXT, selectors=[])
WANTED = PresenceRequest(
    context=CONTEXT,
    platform="device-plugin",
    release=HelmRelease(name=NAME, namespace="default"),
    version="0.1.0",
    objects=(),
    revision=2,
)
UNFINISHED = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")


@pytest.fixture
def api(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Set KUBECONFIG to the cluster; afterwards delete all release records."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.plane.kubeconfig))
    yield cluster
    for secret in cluster.items(SECRETS):
        path = f"{SECRETS}/{secret['metadata']['name']}"
        cluster.request("DELETE", path)
        if secret["metadata"].get("finalizers"):
            cluster.request("PATCH", path, {"metadata": {"finalizers": None}})


def record(cluster: Running, revision: int, status: str, *finalizers: str) -> str:
    """Create a release record as Helm does; return the API path of its Secret."""
    name = f"sh.helm.release.v1.{NAME}.v{revision}"
    release = {
        "name": NAME,
        "namespace": "default",
        "version": revision,
        "config": {},
        "manifest": "",
        "info": {"status": status, "first_deployed": "2026-01-01T00:00:00Z"},
    }
    labels = {"owner": "helm", "name": NAME, "status": status, "version": str(revision)}
    metadata = {"name": name, "labels": labels, "finalizers": list(finalizers)}
    body = {"metadata": metadata, "type": TYPE, "data": {"release": encode_release(release)}}
    cluster.request("POST", SECRETS, body)
    return f"{SECRETS}/{name}"


def statuses(cluster: Running) -> list[tuple[str, str]]:
    """Return the two statuses of each release record: in the Secret's label and in the record."""
    items = sorted(cluster.items(SECRETS), key=lambda item: str(item["metadata"]["name"]))
    return [
        (item["metadata"]["labels"]["status"], decode_release(item)["info"]["status"])
        for item in items
    ]


def unended(status: str) -> Finding:
    """Return the finding about a release whose second revision did not end and has this status."""
    release = f"release default/{NAME}"
    return found(f"due: object {release}: revision 2 is {status}: it did not end")


def inspected() -> Findings:
    """Return what the inspection finds about the release."""

    async def ask() -> Findings:
        async with connect(CONTEXT) as client:
            return (await _observe_platform(client, WANTED, {})).findings

    return asyncio.run(ask())


@pytest.mark.clusters("stale", "pending release")
@pytest.mark.parametrize("status", UNFINISHED)
def test_an_unfinished_record_is_found_refused_and_settled(api: Running, status: str) -> None:
    record(api, 1, "deployed")
    record(api, 2, status)
    assert inspected() == (unended(status),)
    with pytest.raises(
        ClusterError, match=rf"found status {status} in the newest Helm record \(revision 2\)"
    ):
        asyncio.run(presence.check(WANTED))
    removed = asyncio.run(clear.upgrade(CONTEXT, INPUTS))
    assert removed == [f"{status} of release default/{NAME}"]
    assert statuses(api) == [("deployed", "deployed"), ("failed", "failed")]
    assert asyncio.run(clear.upgrade(CONTEXT, INPUTS)) == []
    # The next run must upgrade again, so the failed upgrade is still reported as due.
    assert inspected() == (unended("failed"),)


def test_a_release_in_good_order_is_left_as_it_is(api: Running) -> None:
    path = record(api, 1, "deployed")
    before = api.request("GET", path)
    assert asyncio.run(clear.upgrade(CONTEXT, INPUTS)) == []
    assert api.request("GET", path) == before
    assert inspected() == ()
    said = asyncio.run(presence.check(WANTED)).record
    assert said is not None
    assert said.revision == 1


@pytest.mark.clusters("stale", "release without a state")
@pytest.mark.promise("A release's name that was cleared is free before the release is made.")
def test_the_name_of_a_cleared_release_is_free_afterwards(api: Running) -> None:
    path = record(api, 1, "deployed", "example.com/holds-it")

    def let_go() -> None:
        time.sleep(2)
        api.request("PATCH", path, {"metadata": {"finalizers": None}})

    holder = threading.Thread(target=let_go)
    holder.start()
    removed = asyncio.run(clear.release(NOBODY, INPUTS))
    left = api.items(SECRETS)
    holder.join()
    assert removed == [f"record of release default/{NAME}"]
    assert left == []


@pytest.mark.clusters("stale", "namespace in deletion")
def test_a_namespace_in_deletion_is_waited_for(api: Running) -> None:
    metadata = {"name": "in-deletion", "labels": LABELS, "finalizers": ["example.com/holds-it"]}
    path = f"{SPACES}/in-deletion"
    api.request("POST", SPACES, {"metadata": metadata})
    api.request("DELETE", path)

    def let_go() -> None:
        time.sleep(2)
        api.request("PATCH", path, {"metadata": {"finalizers": None}})

    holder = threading.Thread(target=let_go)
    holder.start()
    asyncio.run(clear.await_deletions(CONTEXT))
    names = [item["metadata"]["name"] for item in api.items(SPACES)]
    holder.join()
    assert "in-deletion" not in names


@pytest.mark.parametrize("stack", ["dev", "other"])
def test_a_namespace_of_another_stack_is_not_taken(api: Running, stack: str) -> None:
    def made(by: str) -> dict[str, Any]:
        notes = {MANAGER: f"gpu-cluster-{by}"}
        return {"metadata": {"name": "of-dev", "labels": LABELS, "annotations": notes}}

    api.request("POST", SPACES, made("dev"))
    try:
        with (
            nullcontext() if stack == "dev" else pytest.raises(ClusterError, match="another stack")
        ):
            asyncio.run(clear.namespace(CONTEXT, made(stack)))
    finally:
        api.request("DELETE", f"{SPACES}/of-dev")
        asyncio.run(clear.await_deletions(CONTEXT))


def test_a_name_that_stays_taken_is_named_with_who_holds_it(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clear, "GONE", 0.5)
    record(api, 1, "deployed", "example.com/holds-it")
    with pytest.raises(ClusterError, match=r"finalizers: example\.com/holds-it"):
        asyncio.run(clear.release(NOBODY, INPUTS))
