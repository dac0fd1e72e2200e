"""Cost of 1,000 simulated nodes in 5 pools: number of Pulumi resources, and time of `up`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.proofs.e2e import project as projects
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.conftest import TOLD

Json = dict[str, Any]

POOLS, EACH, GPUS = 5, 200, 8
LIMIT = 1500
"""Seconds that one command may run."""


@pytest.mark.full
def test_a_thousand_nodes_cost_a_few_resources(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setattr(projects, "LIMIT", LIMIT)
    pools = [
        {"name": f"pool-{n}", "nodes": [f"pool-{n}-[001-{EACH}]"], "gpusPerNode": GPUS}
        for n in range(1, POOLS + 1)
    ]
    declared = ways.declared(
        project.stack, "device-plugin", pools=pools, validation={"timeoutSeconds": 900}
    )
    project.write(declared)
    try:
        started = project.command("start")
        assert started.returncode == 0, started.stdout
        costs = []
        for _ in range(2):
            begun = time.monotonic()
            done = project.command("up")
            assert done.returncode == 0, done.stdout
            assert len(done.stdout.splitlines()) <= 200
            line = done.stdout.strip().splitlines()[-1]
            costs.append((time.monotonic() - begun, figures(line)))
        state = project.checkpoint()
        resources = json.loads(state)["checkpoint"]["latest"]["resources"]
        total = POOLS * EACH * GPUS
        (first, (validated, wanted, _)), (second, (*_, changed)) = costs
        assert (validated, wanted, changed) == (total, total, 0)
        # The number of resources doesn't depend on the number of nodes or pools.
        assert len(resources) < 24
        record_property(
            TOLD,
            f"scale: {POOLS * EACH} simulated nodes in {POOLS} pools: {len(resources)} resources, "
            f"up {first:.0f} s, the same again {second:.0f} s, state {len(state) / 1024:.0f} KiB",
        )
    finally:
        done = project.command("destroy")
        project.write(ways.declared(project.stack, "device-plugin"))
        again = project.command("start")
    assert done.returncode == 0, done.stdout
    assert again.returncode == 0, again.stdout
