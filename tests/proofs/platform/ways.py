"""The seven ways of deploying GPU software, each as sections of a stack file."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.platforms.discovery import named
from tests.fixtures.clusters import INSTALLERS
from tests.proofs.e2e.project import Project

Json = dict[str, Any]

VERSION = "595.91.07"

# Sections of the stack file by the name of the way of deploying.
WAYS: dict[str, Json] = {
    "device-plugin": {"platform": "device-plugin"},
    "device-plugin-driver-daemonset": {
        "platform": "device-plugin",
        "driver": {"source": "daemonset", "version": VERSION},
        "driverInstaller": {"images": INSTALLERS},
    },
    "gpu-operator-driver": {
        "platform": "gpu-operator",
        "driver": {"source": "operator", "version": VERSION},
    },
    "gpu-operator-preinstalled": {"platform": "gpu-operator"},
    "gpu-manager": {"platform": "gpu-manager"},
    "hami": {"platform": "hami"},
    "dra": {"platform": "dra"},
}

LIMITED = tuple(way for way, sections in WAYS.items() if named(sections["platform"]).limit(1))
"""Ways of deploying whose platform accepts GPU limits of namespaces."""

NODES, GPUS = 3, 8
ALL = NODES * GPUS


def declared(stack: str, way: str, **changes: Any) -> Json:
    """Return a configuration with three simulated nodes of eight GPUs in two pools."""
    return {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{stack}"},
        "pools": [
            {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": GPUS},
            {"name": "t4", "nodes": ["gpu-3"], "gpusPerNode": GPUS},
        ],
        "validation": {"timeoutSeconds": 120},
        **WAYS[way],
        **changes,
    }


def served(project: Project, way: str) -> None:
    """Skip the test if the cluster's Kubernetes version is too old for this way of deploying."""
    if way == "dra":
        version = project.request("GET", "", base="/version", version="")
        if int(version["minor"].rstrip("+")) < 34:
            pytest.skip(f"Kubernetes {version['gitVersion']} serves no resource.k8s.io/v1")


def look(project: Project) -> dict[str, tuple[dict[str, str], list[Json]]]:
    """Return the labels and the taints of each node, by node name."""
    nodes = project.request("GET", "nodes")["items"]
    return {
        node["metadata"]["name"]: (
            node["metadata"].get("labels", {}),
            node["spec"].get("taints") or [],
        )
        for node in nodes
    }
