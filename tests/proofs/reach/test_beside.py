"""Tests of the components in a program whose GPU Operator is installed by another component.

The other component is a fake of `ClusterStack` of pulumi-labs/pulumi-nvidia-aicr: it declares what
provider/pkg/provider/clusterstack.go declares for the operator (a provider, a Namespace, a Helm
release whose name Pulumi generates), with the simulator's chart.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import LIMIT, Json, Project
from tests.proofs.reach.program import GPUS, Program, environment

pytestmark = pytest.mark.full

DEFINITIONS = "/apis/apiextensions.k8s.io"
PROGRAM = """
import json
import os

import pulumi
import pulumi_command
import pulumi_kubernetes as kubernetes

from gpu_cluster import cluster

made = pulumi_command.local.Command(
    "made",
    create='cat "$CLUSTER_KUBECONFIG"',
    opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
)
settings = json.loads(os.environ["TEST_SETTINGS"])
theirs = pulumi.ComponentResource("nvidia-aicr:index:ClusterStack", "aicr")
child = pulumi.ResourceOptions(parent=theirs)
provider = kubernetes.Provider(
    "aicr-k8s-provider",
    kubeconfig=made.stdout,
    context=settings["kubernetes"]["context"],
    opts=child,
)
child = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(provider=provider))
namespace = kubernetes.core.v1.Namespace(
    "aicr-ns-gpu-operator", metadata={"name": "gpu-operator"}, opts=child
)
release = kubernetes.helm.v3.Release(
    "aicr-gpu-operator",
    chart=os.path.join(os.environ["GPU_CHARTS"], "gpu-operator"),
    namespace="gpu-operator",
    create_namespace=True,
    values={"driver": {"enabled": False}, "toolkit": {"enabled": False}},
    opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[namespace])),
)
for name in os.environ["TEST_PARTS"].split():
    part = getattr(cluster, name)(
        name,
        cluster.GpuClusterArgs(settings=settings, kubeconfig=made.stdout),
        pulumi.ResourceOptions(depends_on=[release]),
    )
    pulumi.export(name, part.nodes)
"""


@pytest.fixture
def program(project: Project, tmp_path: Path) -> Iterator[Program]:
    """Deploy the fake component; remove it, and the definitions that Helm leaves, at the end."""
    folder = tmp_path / "program"
    folder.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": "venv"}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "beside", "runtime": runtime}))
    (folder / "__main__.py").write_text(PROGRAM)
    for name in ("components", "policies", "venv"):
        (folder / name).symlink_to(project.root / name)
    settings = {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{project.stack}"},
        "platform": "gpu-operator",
        "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
        "guardrails": {"mode": "audit"},
    }
    made = Program(folder, project.stack, environment(project, tmp_path))
    made.environment |= {"TEST_SETTINGS": json.dumps(settings)}
    made.pulumi("stack", "init")
    before = definitions(project)
    try:
        deploy(made)
        yield made
    finally:
        made.pulumi("destroy", "--yes")
        for name in definitions(project) - before:
            url = f"customresourcedefinitions/{name}"
            project.request("DELETE", url, base=DEFINITIONS, version="v1")
        take_labels(project)
        shutil.rmtree(folder)


def deploy(program: Program, *parts: str, succeeds: bool = True) -> str:
    """Run `pulumi up` with parts of this project beside the other component."""
    program.environment["TEST_PARTS"] = " ".join(parts)
    return program.pulumi("up", "--yes", "--skip-preview", succeeds=succeeds)


def take_labels(project: Project) -> None:
    """Remove the labels that an uninstalled operator leaves on nodes; its NFD would remove them.

    By `nvidia.com/gpu.present` the device plugin of a later test would start on nodes whose hosts
    are not prepared.
    """
    for node in project.request("GET", "nodes")["items"]:
        names = [name for name in node["metadata"]["labels"] if name.startswith("nvidia.com/")]
        body = {"metadata": {"labels": dict.fromkeys(names)}}
        url = f"nodes/{node['metadata']['name']}"
        project.request("PATCH", url, body=body, content_type="application/merge-patch+json")


def definitions(project: Project) -> set[str]:
    found = project.request("GET", "customresourcedefinitions", base=DEFINITIONS, version="v1")
    return {item["metadata"]["name"] for item in found["items"]}


def releases(project: Project) -> Json:
    """Return Helm's records in the namespace of the operator, with their resource versions."""
    found = project.request("GET", "namespaces/gpu-operator/secrets")
    records = [item for item in found["items"] if item["type"] == "helm.sh/release.v1"]
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in records}


def await_gpus(project: Project) -> None:
    """Wait until the nodes advertise the GPUs that the other component's operator serves."""
    ends = time.monotonic() + LIMIT
    for number in range(1, 5):
        node: Json = {}
        while node.get("nvidia.com/gpu") != "8":
            assert time.monotonic() < ends, node
            time.sleep(1)
            node = project.request("GET", f"nodes/gpu-{number}")["status"]["allocatable"]


@pytest.mark.promise(
    "Validation and guardrails stand beside a GPU Operator that another component of the same "
    "program installed, and leave its release alone; a second operator is refused."
)
def test_the_release_of_another_component_is_left_alone(project: Project, program: Program) -> None:
    await_gpus(project)
    records, alone = releases(project), snapshot.cluster(project)
    assert len(records) == 1

    refused = deploy(program, "GpuOperator", succeeds=False)
    assert "gpu-operator" in refused
    assert "found" in refused
    deploy(program)
    assert snapshot.cluster(project) == alone

    deploy(program, "GpuValidation", "GpuGuardrails")
    assert sum(node["simulated"] for node in program.output("GpuValidation")) == GPUS
    program.pulumi("up", "--yes", "--expect-no-changes")
    assert releases(project) == records

    deploy(program)
    assert releases(project) == records
    assert snapshot.cluster(project) == alone
