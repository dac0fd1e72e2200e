"""Tests that the Kubernetes plugin built by the toolchain works like the official plugin.

The build replaces the function of the plugin's SDK that registers the objects of a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_cluster_lab import toolchain
from lab.benchmarks.api_server import ApiServer, running
from tests.toolchain.plugins.rig import Project

pytestmark = pytest.mark.slow

# Kinds from many API groups. Each has the apiVersion in its manifest and the group in its Pulumi
# type.
KINDS = {
    "ConfigMap": ("v1", "core/v1"),
    "Secret": ("v1", "core/v1"),
    "ServiceAccount": ("v1", "core/v1"),
    "PriorityClass": ("scheduling.k8s.io/v1", "scheduling.k8s.io/v1"),
    "Role": ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1"),
    "StorageClass": ("storage.k8s.io/v1", "storage.k8s.io/v1"),
    "DaemonSet": ("apps/v1", "apps/v1"),
}
FIELDS = {
    "Secret": {"stringData": {"token": "canary"}},
    "PriorityClass": {"value": 7},
    "Role": {"rules": []},
    "StorageClass": {"provisioner": "example.com/none"},
    "DaemonSet": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        }
    },
}
PROGRAM = """
import pulumi, pulumi_kubernetes as k8s
provider = k8s.Provider("kubernetes", kubeconfig=open("kubeconfig").read())
opts = pulumi.ResourceOptions(provider=provider)
group = k8s.yaml.v2.ConfigGroup("group", yaml=open("all.yaml").read(), skip_await=True, opts=opts)
chart = k8s.helm.v4.Chart("chart", chart="./chart", skip_await=True, opts=opts)
pulumi.export("group", group.resources.apply(len))
pulumi.export("chart", chart.resources.apply(len))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running("plugin", controllers=True) as started:
        yield started


def manifest(kind: str, name: str) -> dict[str, object]:
    named = {"kind": kind, "metadata": {"name": name}, **FIELDS.get(kind, {})}
    return {"apiVersion": KINDS[kind][0], **named}


def test_each_manifest_of_a_group_or_chart_is_registered_as_its_kind(
    server: ApiServer, project: Project
) -> None:
    plugin = toolchain.ensure("pulumi-resource-kubernetes")["pulumi-resource-kubernetes"]
    tools = Path(project.environment["PATH"].split(":", maxsplit=1)[0])
    (tools / plugin.name).symlink_to(plugin.path)
    folder = project.folder
    (folder / "kubeconfig").write_text(server.kubeconfig.read_text())
    single = [manifest(kind, "single") for kind in KINDS if kind != "ConfigMap"]
    listed = {
        "apiVersion": "v1",
        "kind": "ConfigMapList",
        "items": [manifest("ConfigMap", "single")],
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([*single, listed]))
    templates = folder / "chart" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 1.0.0\n")
    (templates / "all.yaml").write_text(
        yaml.safe_dump_all([manifest(kind, "charted") for kind in KINDS])
    )
    project.write(PROGRAM)
    project.up()
    state = project.run("stack", "export")
    assert "canary" not in state
    resources = json.loads(state)["deployment"]["resources"]
    for parent in ("yaml/v2:ConfigGroup::group", "helm.sh/v4:Chart::chart"):
        types = [
            resource["type"]
            for resource in resources
            if resource.get("parent", "").endswith(parent)
        ]
        assert sorted(types) == sorted(
            f"kubernetes:{group}:{kind}" for kind, (_, group) in KINDS.items()
        )
    (stack,) = [resource for resource in resources if resource["type"] == "pulumi:pulumi:Stack"]
    assert stack["outputs"] == {"group": len(KINDS), "chart": len(KINDS)}
    assert "unchanged" in project.up()
    project.run("destroy", "--yes", "--skip-preview")
