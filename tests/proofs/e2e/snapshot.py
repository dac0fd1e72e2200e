"""Snapshots of a cluster's objects and of a host's files, for comparisons."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gpu_cluster.kubernetes.api import Client
from tests.proofs.e2e.project import Project

Json = dict[str, Any]

# Kinds of objects that the control plane itself creates or changes.
MOVING = {"Event", "Lease", "Endpoints", "EndpointSlice", "ComponentStatus"}
# Annotation that kube-controller-manager writes on Nodes; its value depends on the number of Nodes
# (pkg/controller/ttl).
CLUSTER_SIZE = "node.alpha.kubernetes.io/ttl"
# Folders of a host that daemons, the kernel or an SSH login change by themselves.
ELSEWHERE = ("dev", "proc", "sys", "run", "tmp", "var/log", "var/lib/containerd", "var/cache")


def cluster(project: Project) -> dict[str, Json]:
    """Return all objects in the cluster by path, without fields that change all the time.

    The ``status``, which the simulated kubelets keep writing, and the resource versions are
    omitted. Of Nodes, the simulator's annotations and the annotation that depends on the cluster's
    size are omitted too.
    """
    return project.ask(partial(_objects, moving=MOVING, keep=_kept))


def versions(project: Project) -> dict[str, Json]:
    """Return all objects in the cluster by path, with their resource versions.

    Events and Leases are omitted. Of Nodes, the resource version and the status are omitted,
    because heartbeats change them.
    """
    return project.ask(partial(_objects, moving={"Event", "Lease"}, keep=_version))


def _version(kind: str, item: Json) -> Json:
    if kind != "Node":
        return {key: item["metadata"].get(key) for key in ("uid", "resourceVersion")}
    parts = ("resourceVersion", "managedFields")
    metadata = {key: value for key, value in item["metadata"].items() if key not in parts}
    return {"metadata": metadata, "spec": item["spec"]}


async def _objects(
    client: Client, moving: set[str], keep: Callable[[str, Json], Json]
) -> dict[str, Json]:
    objects: dict[str, Json] = {}
    groups = (await client.request("GET", "", base="/apis", version=""))["groups"]
    versions = [("/api", "v1")]
    versions += [
        (f"/apis/{group['name']}", group["preferredVersion"]["version"]) for group in groups
    ]
    for base, version in versions:
        listing = "" if base == "/api" else base
        resources = await client.request("GET", "", base=listing, version=version)
        for resource in resources["resources"]:
            kind, name = resource["kind"], resource["name"]
            if "/" in name or "list" not in resource["verbs"] or kind in moving:
                continue
            items = await client.request("GET", name, base=listing, version=version)
            for item in items["items"]:
                metadata = item["metadata"]
                path = f"{kind}/{metadata.get('namespace', '')}/{metadata['name']}"
                objects[path] = keep(kind, item)
    return objects


def _kept(kind: str, item: Json) -> Json:
    metadata = item["metadata"]
    annotations = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if not key.startswith("simulator.gpu-cluster/") and key != CLUSTER_SIZE
    }
    kept = {
        "labels": metadata.get("labels", {}),
        "annotations": annotations,
        "managers": sorted(
            {entry["manager"] for entry in metadata.get("managedFields", [])}
            if kind in ("Node", "Namespace")
            else []
        ),
    }
    return kept | {key: item[key] for key in ("spec", "data") if key in item}


def host(root: Path) -> dict[str, str]:
    """Return a host's files by path, with type, mode, owner and SHA-256 of the content."""
    result = {}
    for folder, folders, files in os.walk(root):
        inside = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if str(inside / name) not in ELSEWHERE]
        for name in [*folders, *files]:
            path = Path(folder) / name
            status = path.lstat()
            content = ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = str(path.readlink())
            mode = oct(status.st_mode)
            result[str(inside / name)] = f"{mode} {status.st_uid}:{status.st_gid} {content}"
    return result
