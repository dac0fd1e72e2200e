"""A stack file that is drafted from an inventory or a cluster declares its resources in a preview.

The engine and the inspection are replaced by Pulumi's mocks. `tests/proofs/e2e/test_new.py`
previews one draft by the real engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pulumi
import pytest

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.commands.adoption.draft import HostKeys, Wanted, from_cluster, from_inventory
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.settings.cluster import Cluster
from tests.commands.adoption.drafts import (
    CASES,
    CLUSTERS,
    Case,
    every_key,
    found_in,
    loaded,
)
from tests.mocks import Recorder, declare

pytestmark = pytest.mark.usefixtures("no_hooks")
VALIDATION = "gpu-cluster-validation.pools"
PREPARATION = "gpu-cluster-host-preparation-"


def previewed(made: Cluster) -> Recorder:
    """Preview a stack with these settings."""

    def program() -> None:
        key = pulumi.Output.secret("a private key")
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=made, private_key=key))

    return declare(program, preview=True)


def check(recorder: Recorder, made: Cluster) -> None:
    """Check that each pool is validated, and each host prepared."""
    names = [resource.name for resource in recorder.resources]
    (validated,) = (each.inputs["stdin"] for each in recorder.resources if each.name == VALIDATION)
    request = json.loads(validated["value"] if isinstance(validated, dict) else validated)
    assert {pool.name for pool in made.pools} <= {pool["pool"] for pool in request["pools"]}
    prepared = {name.removeprefix(PREPARATION) for name in names if name.startswith(PREPARATION)}
    assert prepared == {host.name for host in made.hosts}


def test_there_are_twenty_inventories_and_clusters() -> None:
    assert len(CASES) >= 20
    assert len(CASES) + len(CLUSTERS) >= 28


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.promise("What `gpu-cluster new` writes from an inventory can be previewed.")
def test_what_is_drafted_from_an_inventory_previews(case: Case, tmp_path: Path) -> None:
    found = found_in(case, tmp_path)
    draft = from_inventory(found, Wanted(context="prod"), "new", every_key(found))
    made = loaded(draft.text, tmp_path)
    check(previewed(made), made)


@pytest.mark.parametrize("observed", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.promise("What `gpu-cluster new` writes from a running cluster can be previewed.")
def test_what_is_drafted_from_a_cluster_previews(
    observed: Callable[[], ObservedCluster], tmp_path: Path
) -> None:
    there = observed()
    draft = from_cluster(there, propose(there, "prod"), None, HostKeys())
    made = loaded(draft.text, tmp_path)
    check(previewed(made), made)
