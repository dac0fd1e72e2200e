"""Two stacks on one cluster: a pool moves from a device plugin to DRA, and the others stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster_lab.toolchain.pins import KUBERNETES
from gpu_cluster_lab.toolchain.versions import numbers
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform import ways
from tests.proofs.simulator.running import until

Json = dict[str, Any]
BY = "gpus-by"
"""Label that says which software advertises a node's GPUs."""
SECONDS = 120
"""Time limit for a pod to run, on a busy machine."""
HOSTNAME = "kubernetes.io/hostname"
PODS = "namespaces/default/pods"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        numbers(KUBERNETES) < (1, 36, 0),
        reason=f"Kubernetes {KUBERNETES} has DRAExtendedResource off by default",
    ),
]


def pool(name: str, nodes: str, by: str) -> Json:
    return {"name": name, "nodes": [nodes], "gpusPerNode": 8, "labels": {BY: by}}


def declared(stack: str) -> Json:
    """Return a stack whose device plugin runs only where a label asks for it."""
    document = ways.declared(stack, "device-plugin")
    document["pools"] = [pool("a100", "gpu-[1-2]", "plugin"), pool("t4", "gpu-3", "plugin")]
    document["devicePlugin"] = {"extraValues": {"nodeSelector": {BY: "plugin"}}}
    return document


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Project]:
    """Yield a project whose stack gives out the GPUs of three nodes by a device plugin."""
    project = Project.make(tmp_path, f"plugin-{os.getpid()}")
    project.write(declared(project.stack))
    with started(project):
        assert figures(project.up())[:2] == (24, 24)
        yield project


def run(project: Project, name: str, **selector: str) -> Json:
    """Start a pod that asks for a GPU by its resource's name, and wait until it runs."""
    container = {"name": "a", "image": "cuda", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {
        "nodeSelector": selector,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    project.request("POST", PODS, body={"metadata": {"name": name}, "spec": spec})
    made: Json = until(
        lambda: project.request("GET", f"{PODS}/{name}"),
        lambda pod: pod["status"].get("phase") == "Running",
        limit=SECONDS,
    )
    return made


def other_stack(project: Project) -> dict[str, str]:
    """Write the file of a stack with DRA on the same cluster; return its variables for `make`."""
    stack = f"dra-{os.getpid()}"
    document = {
        **ways.declared(project.stack, "dra"),
        "pools": [pool("t4", "gpu-3", "dra")],
        "validation": {"timeoutSeconds": 120, "namespace": "gpu-validation-dra"},
        "dra": {"extraValues": {"kubeletPlugin": {"nodeSelector": {BY: "dra"}}}},
    }
    content = {"config": {"gpu-cluster:cluster": document}}
    (project.root / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(content))
    kubeconfig = str(project.kubeconfig)
    return {"STACK": stack, "KUBECONFIG": kubeconfig, "PULUMI_CONFIG_PASSPHRASE": "moved"}


@pytest.mark.promise(
    "A pool moves from a device plugin to DRA by a second stack on the same cluster: the other "
    "pools' pods stay, pods go on to ask for `nvidia.com/gpu`, and the move is refused while a pod "
    "holds a GPU of the pool."
)
def test_a_pool_moves_to_dra_while_the_others_stay(plugin: Project) -> None:
    stays = run(plugin, "stays", **{HOSTNAME: "gpu-1"})
    dra = other_stack(plugin)

    refused = plugin.command("preview", **dra)
    assert refused.returncode != 0, refused.stdout
    assert f"pool t4: node gpu-3: found nodes of stack {plugin.stack}" in refused.stdout

    holder = {"nodeName": "gpu-3", "containers": [{"name": "a", "image": "cuda"}]}
    holder["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    holder["tolerations"] = [{"operator": "Exists"}]
    plugin.request("POST", PODS, body={"metadata": {"name": "holds"}, "spec": holder})
    until(
        lambda: plugin.request("GET", f"{PODS}/holds"),
        lambda pod: pod["status"].get("phase") == "Running",
        limit=SECONDS,
    )

    plugin.edit(lambda document: document["pools"].pop(), hardware=False)
    assert figures(plugin.up())[:2] == (16, 16)
    refused = plugin.command("up", **dra)
    assert refused.returncode != 0, refused.stdout
    assert "a device plugin, default/holds (gpu-3, 1): dra does not see that" in refused.stdout
    plugin.request("DELETE", f"{PODS}/holds")

    done = plugin.command("up", **dra)
    assert done.returncode == 0, done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("up: 8 of 8 GPUs"), last
    claimed = run(plugin, "moved", **{BY: "dra"})
    assert claimed["spec"]["nodeName"] == "gpu-3"
    assert claimed["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert run(plugin, "new", **{BY: "plugin"})["status"].get("extendedResourceClaimStatus") is None
    assert plugin.request("GET", f"{PODS}/stays")["metadata"]["uid"] == stays["metadata"]["uid"]

    assert figures(plugin.up()) == (16, 16, 0)
    again = plugin.command("up", **dra)
    assert "0 resources changed" in again.stdout, again.stdout
    gone = plugin.command("destroy", **dra)
    assert gone.returncode == 0, gone.stdout
    assert figures(plugin.up()) == (16, 16, 0)
