"""Rows of `edits.yaml`: stack files with a fault, and the edit that its cure names."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.managers import Manager
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.platforms.findings import PodAdmission, Surroundings
from gpu_cluster.platforms.validate_cluster import validate_cluster
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import Fault
from gpu_rules.kube.taints import NodeTaint
from tests.error_texts import anchors, errors
from tests.proofs.advice.follow import faults_of
from tests.proofs.advice.origins import Origins

Json = dict[str, Any]
FILE = Path(__file__).with_name("edits.yaml")
NAMES, *ROWS = yaml.load(FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
STACK: Json = {
    "version": "v1",
    "kubernetes": {"context": "c"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": ["gpu-1", "gpu-2"], "gpusPerNode": 8}],
    "hosts": [NAMES["names"][3]],
}


def messages(document: Any, seen: Json | None = None) -> tuple[Fault, ...]:
    """Return the faults of a document; if it loads, the warnings, or the faults of the cluster.

    Args:
        seen: State of the cluster; None: only the document is judged.
    """
    if faults := faults_of(document):
        return faults
    cluster = load(document)
    return tuple(warnings(cluster)) if seen is None else tuple(_judge(cluster, seen))


def _judge(cluster: Cluster, seen: Json) -> list[Fault]:
    """Return the faults that a preview finds about a cluster's platform."""
    desired = resolve(cluster, "test")
    given = {"version": "v1.34.4", "groups": {"resource.k8s.io": ["v1"]}, **seen}
    nodes = given.pop("nodes", {})
    given["taints"] = {
        node: tuple(map(NodeTaint.parse, texts)) for node, texts in given.get("taints", {}).items()
    }
    managers = [
        Manager(**{"selector": {}, "ours": False, **one}) for one in given.get("managers", ())
    ]
    given["managers"] = tuple(managers)
    if "admission" in given:
        given["admission"] = PodAdmission(**given["admission"])
    labels = [{"kubernetes.io/hostname": node, **labels} for node, labels in nodes.items()]
    members = {cluster.pools[0].name: labels}
    return validate_cluster(desired.platform, Surroundings(**given), members, {}, desired.wanted)


def merged(value: Any, patch: Any) -> Any:
    """Return a value with a patch: mappings are merged, a number is an index, null removes."""
    if not isinstance(patch, dict) or not isinstance(value, dict | list):
        return _plain(patch)
    result = copy.copy(value)
    for key, below in patch.items():
        is_new = key == len(result) if isinstance(result, list) else key not in result
        if below is None:
            del result[key]
        elif is_new and isinstance(result, list):
            result.append(_plain(below))
        else:
            result[key] = _plain(below) if is_new else merged(result[key], below)
    return result


def _plain(patch: Any) -> Any:
    """Return a patch as a value; a mapping from 0 on stands for a list."""
    if isinstance(patch, dict) and patch and list(patch) == [*range(len(patch))]:
        return [_plain(item) for item in patch.values()]
    if isinstance(patch, dict):
        return {key: _plain(item) for key, item in patch.items() if item is not None}
    return copy.copy(patch)


def after(row: Json) -> tuple[Fault, ...]:
    """Return the faults that are left after the edits of a row."""
    document = merged(merged(STACK, row.get("with", {})), row.get("edit", {}))
    seen = row.get("seen")
    return messages(document, merged(seen, row.get("then", {})) if seen is not None else None)


def leaves(patch: Any) -> Iterator[str]:
    """Yield the texts of the values of an edit."""
    if isinstance(patch, dict | list):
        for item in patch.values() if isinstance(patch, dict) else patch:
            yield from leaves(item)
    elif patch is not None:
        yield str(patch).lower() if isinstance(patch, bool) else str(patch)


def fault_of(row: Json) -> tuple[Fault, str, tuple[Fault, ...]]:
    """Return the fault that a row is about, the anchor of its text, and all faults of the file.

    Raises:
        LookupError: The file has no such fault, or several.
    """
    document = merged(STACK, row.get("with", {}))
    origins = Origins()
    before = origins.watch(lambda: messages(document, row.get("seen")))
    meant = [fault for fault in before if str(row["cure"]) in fault.cure]
    if len(meant) != 1:
        raise LookupError("\n".join(map(str, before)) or "no fault")
    return meant[0], origins.row_of(meant[0]), before


@cache
def followed_rows() -> frozenset[str]:
    """Return the anchors of the texts whose cures rows of `edits.yaml` follow.

    Texts of `explain.py` are those of many fields: following one says nothing about the others.
    """
    texts = errors()
    shared = {
        anchor
        for anchor, text in zip(anchors(texts), texts, strict=True)
        if text.file.endswith("base/explain.py")
    }
    return frozenset(fault_of(row)[1] for row in ROWS) - shared - {""}
