"""Nodes, pods, claims and slices in the API server's form, for tests of who holds GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_rules.kube.gpu_resources import GPU

Json = dict[str, Any]
CREATED = "2026-01-02T03:04:05Z"


def node(name: str, amounts: Mapping[str, str] = {GPU: "8"}, **spec: Any) -> Json:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {"kind": "dgx"}},
        "spec": spec,
        "status": {"allocatable": dict(amounts), "conditions": [ready]},
    }


def pod(name: str, on: str, limits: Mapping[str, str] = {GPU: "2"}, **status: Any) -> Json:
    space, _, plain = name.rpartition("/")
    meta = {"namespace": space or "team-a", "name": plain, "uid": name}
    return {
        "metadata": {**meta, "creationTimestamp": CREATED},
        "spec": {
            **({"nodeName": on} if on else {}),
            "containers": [{"name": "main", "resources": {"limits": dict(limits)}}],
        },
        "status": {"phase": "Running" if on else "Pending", **status},
    }


def claim(name: str, on: str, devices: list[str], users: list[str], **result: Any) -> Json:
    results = [
        {"request": "r", "driver": DRA_DRIVER, "pool": on, "device": each, **result}
        for each in devices
    ]
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    return {
        "metadata": {"namespace": "team-a", "name": name, "creationTimestamp": CREATED},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def slices(on: str, count: int) -> Json:
    attributes = {"type": {"string": "gpu"}}
    devices = [{"name": f"gpu-{n}", "attributes": attributes} for n in range(count)]
    pool = {"name": on, "generation": 1}
    return {"spec": {"driver": DRA_DRIVER, "nodeName": on, "pool": pool, "devices": devices}}
