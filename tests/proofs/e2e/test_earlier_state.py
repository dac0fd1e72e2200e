"""An update of a stack that an earlier version deployed, with a Command per pool."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import node_scheduling, record
from gpu_cluster.operation import command_line
from gpu_cluster.requests import write
from gpu_cluster_lab.simulator import api
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways

pytestmark = pytest.mark.slow

Json = dict[str, Any]
POOLS = ("a100", "l4")
MERGE = "application/merge-patch+json"
PROGRAMS = {
    "gpu-cluster-node-scheduling": ("node-scheduling", "apply", "release"),
    "gpu-cluster-validation": ("validation", "validate", "forget"),
}
"""Program and actions of the Commands, by the name of their component."""


def requests_of_pools(project: Project) -> dict[str, dict[str, str]]:
    """Return the request that an earlier version gave each pool's Command, by component."""
    desired = resolve(load(project.read()), project.stack)
    forms = {}
    for name, pools in (
        ("gpu-cluster-node-scheduling", desired.scheduling.pools),
        ("gpu-cluster-validation", desired.validation.pools),
    ):
        forms[name] = {}
        for pool in pools:
            request = json.loads(write(pool))
            request.pop("together", None)
            forms[name][pool.pool] = json.dumps(request)
    return forms


def as_earlier(state: Json, requests: dict[str, dict[str, str]]) -> Json:
    """Return a state in which each pool has its own Commands."""
    made = copy.deepcopy(state)
    resources = []
    for item in made["deployment"]["resources"]:
        component = item["urn"].split("::")[-1].removesuffix(".pools")
        if not item["urn"].endswith(".pools"):
            resources.append(item)
            continue
        program, action, delete = PROGRAMS[component]
        for pool, request in requests[component].items():
            one = copy.deepcopy(item)
            one["urn"] = f"{item['urn'].removesuffix('.pools')}-{pool}"
            one["id"] = f"{item['id']}{pool}"
            for values in (one["inputs"], one["outputs"]):
                values["stdin"] = request
                values["create"] = values["update"] = command_line(program, action)
                values["delete"] = command_line(program, delete)
            one["outputs"]["stdout"] = "{}"
            resources.append(one)
    urns = {item["urn"] for item in made["deployment"]["resources"] if ".pools" in item["urn"]}
    for item in resources:
        item["dependencies"] = [d for d in item.get("dependencies", []) if d not in urns]
        item["propertyDependencies"] = {
            key: [d for d in found or [] if d not in urns]
            for key, found in (item.get("propertyDependencies") or {}).items()
        }
    made["deployment"]["resources"] = resources
    return made


def forget_takeover(project: Project) -> None:
    """Write the annotations of the nodes as an earlier version wrote them."""
    desired = resolve(load(project.read()), project.stack)
    for pool in desired.scheduling.pools:
        alone = replace(pool, together=False)
        project.ask(lambda _, alone=alone: node_scheduling.apply(alone))
    for node in project.request("GET", "nodes")["items"]:
        if proof := record.decode(node):
            notes = {record.RECORD: record.encode(replace(proof, stack=""))}
            body = {"metadata": {"annotations": notes}}
            path = f"nodes/{node['metadata']['name']}"
            project.request("PATCH", path, body=body, content_type=MERGE)


def versions_since(project: Project, version: str) -> Iterator[Json]:
    """Yield each version of a node since a resource version, in the order of the changes."""

    async def read() -> list[Json]:
        found: list[Json] = []
        async with api.connect(ControlPlane(project.stack).access()) as client:
            events = client.watch("/api/v1/nodes", version, timeoutSeconds="2")
            async for event in events:
                if event["type"] != "BOOKMARK":
                    found.append(event)
        return found

    for event in asyncio.run(read()):
        assert event["type"] == "MODIFIED"
        yield event["object"]


def names(state: Json) -> set[str]:
    """Return the names of the stack's local Commands."""
    resources = state["deployment"]["resources"]
    commands = [item for item in resources if item["type"] == "command:local:Command"]
    return {item["urn"].split("::")[-1] for item in commands}


@pytest.fixture
def earlier(project: Project) -> Iterator[Project]:
    """Yield the project with two pools and no hosts; afterwards restore its declared nodes."""
    before = project.file.read_text()
    pools = [{"name": name, "nodes": [f"{name}-[1-2]"], "gpusPerNode": 8} for name in POOLS]
    project.write(ways.declared(project.stack, "device-plugin", pools=pools))
    assert project.command("start").returncode == 0
    yield project
    project.file.write_text(before)
    project.write(project.read())
    assert project.command("start").returncode == 0


def export(project: Project) -> Json:
    done = project.pulumi("stack", "export")
    state: Json = json.loads(done.stdout[done.stdout.index("{") :])
    return state


@pytest.mark.promise(
    "A stack that an earlier version deployed with one Command per pool keeps labels, taints and "
    "validation records of its nodes at every moment of the update."
)
def test_an_update_from_a_command_per_pool_changes_nothing_on_the_nodes(
    earlier: Project, tmp_path: Path
) -> None:
    project = earlier
    assert figures(project.up())[:2] == (32, 32)
    state = export(project)
    with_commands = as_earlier(state, requests_of_pools(project))
    of_pools = {f"{name}-{pool}" for name in PROGRAMS for pool in POOLS}
    assert of_pools <= names(with_commands)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(with_commands))
    done = project.pulumi("stack", "import", "--file", str(file))
    assert done.returncode == 0, done.stdout
    forget_takeover(project)
    listed = project.request("GET", "nodes")
    before = {node["metadata"]["name"]: node for node in listed["items"]}
    assert figures(project.up())[:2] == (32, 32)
    for node in versions_since(project, listed["metadata"]["resourceVersion"]):
        name = node["metadata"]["name"]
        assert node["metadata"]["labels"] == before[name]["metadata"]["labels"]
        assert node["spec"].get("taints") == before[name]["spec"].get("taints")
        proof, kept = record.decode(node), record.decode(before[name])
        assert (proof and proof.devices) == (kept and kept.devices)
        assert (proof and proof.since) == (kept and kept.since)
    assert (
        names(export(project)) & {f"{name}-{pool}" for name in PROGRAMS for pool in POOLS} == set()
    )
    assert figures(project.up())[2] == 0
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    for node in project.request("GET", "nodes")["items"]:
        notes = node["metadata"].get("annotations") or {}
        assert not [key for key in notes if key.startswith("gpu-cluster/")]
