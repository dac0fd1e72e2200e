"""A stack that was made in a clone moves to a site: same state, same names, 0 changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands.backend import recorded_resources
from gpu_cluster.commands.files import copy_project
from gpu_cluster_lab.simulator.hosts import host_public_key
from gpu_cluster_lab.simulator.ports import free_ports
from tests.proofs.install.conftest import MOVED
from tests.proofs.install.site import Site, last
from tests.proofs.platform import ways

WAYS = ("device-plugin", "gpu-operator-preinstalled", "gpu-manager", "hami", "dra")
"""A way of deploying on each platform."""
Record = Callable[[str, object], None]


def declared(stack: str, way: str) -> dict[str, Any]:
    """Return a stack's settings; those of the device plugin also have a host."""
    settings = ways.declared(stack, way)
    if way == "device-plugin":
        (port,) = free_ports(1)
        key = host_public_key("gpu-1")
        host = {"name": "gpu-1", "role": "gpu-worker", "address": "127.0.0.1", "hostKey": key}
        settings["hosts"] = [{**host, "port": port}]
    return settings


def names_of(site: Site, stack: str) -> set[str]:
    """Return the URNs in a stack's state, which clone and site share."""
    backend = Path(site.environment["GPU_CLUSTER_CACHE"], "embedded", "state", ".pulumi")
    return {str(item["urn"]) for item in recorded_resources(backend, stack)}


@pytest.mark.full
@pytest.mark.promise("A stack of each platform that a clone made moves to a site with 0 changes.")
@pytest.mark.parametrize("way", WAYS)
def test_a_stack_of_a_clone_moves_to_a_site_without_change(
    site: Site, way: str, tmp_path: Path, record_property: Record
) -> None:
    stack = f"moved-{way.partition('-pre')[0]}"
    copy_project(tmp_path)
    file = tmp_path / f"Pulumi.{stack}.yaml"
    file.write_text(
        yaml.safe_dump({"config": {"gpu-cluster:cluster": declared(stack, way)}}, sort_keys=False)
    )
    clone = Site(tmp_path, site.environment)
    verb = ("python", "-m", "gpu_cluster.commands")
    try:
        done = clone.run(*verb, "up", "--stack", stack)
        assert done.returncode == 0, done.stdout + done.stderr
        assert last(done.stdout).startswith(f"up: {ways.ALL} of {ways.ALL} GPUs simulated, ")
        shutil.copy(file, site.folder)
        before = names_of(site, stack)
        assert before
        previewed = last(site.succeeds("preview", "--stack", stack))
        assert re.match(r"preview: \d+ same; ", previewed), previewed
        assert ", 0 resources changed" in last(site.succeeds("up", "--stack", stack))
        assert names_of(site, stack) == before
        record_property(MOVED, way)
    finally:
        done = site.run("gpu-cluster", "down", "--stack", stack)
        (site.folder / file.name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stdout + done.stderr
