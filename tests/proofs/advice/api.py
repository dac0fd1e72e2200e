"""Objects behind the project's client of the Kubernetes API, for cures that change objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from gpu_cluster.kubernetes.api import Client
from tests.fixtures.api import client

Json = dict[str, Any]


@dataclass
class Objects:
    """Objects of a cluster by their path, as `/api/v1/nodes/gpu-1`.

    Attributes:
        at: Objects.
        refused: Status and message of requests that are refused, by method and a part of the path.
        kept: Objects that a deletion doesn't remove, as one with a finalizer.
    """

    at: dict[str, Json] = field(default_factory=dict)
    refused: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request as an API server does."""
        path, method = request.url.path.rstrip("/"), request.method
        for (verb, part), (code, message) in self.refused.items():
            if verb == method and part in path:
                return httpx.Response(code, json={"message": message, "reason": "Refused"})
        if method == "POST" and path.endswith("/eviction"):
            return self._delete(path.removesuffix("/eviction"))
        if method == "POST":
            body = json.loads(request.content)
            self.at[f"{path}/{body['metadata']['name']}"] = body
            return httpx.Response(201, json=body)
        if method == "DELETE":
            return self._delete(path)
        if method in ("PATCH", "PUT"):
            return self._patch(path, json.loads(request.content))
        if path in self.at:
            return httpx.Response(200, json=self.at[path])
        node = dict(request.url.params).get("fieldSelector", "").partition("spec.nodeName=")[2]
        below = [
            item
            for place, item in self.at.items()
            if _is_listed(place, path) and (not node or item["spec"].get("nodeName") == node)
        ]
        if below or path.rpartition("/")[2].endswith("s"):
            return httpx.Response(200, json={"items": below, "metadata": {}})
        return httpx.Response(404, json={"message": "not found", "reason": "NotFound"})

    def _delete(self, path: str) -> httpx.Response:
        if path not in self.kept:
            self.at.pop(path, None)
        return httpx.Response(200, json={})

    def _patch(self, path: str, body: Any) -> httpx.Response:
        item = self.at[path]
        if isinstance(body, list):
            for change in body:
                if change["path"] == "/spec/taints":
                    item["spec"]["taints"] = change.get("value", [])
        else:
            _merge(item, body)
        return httpx.Response(200, json=item)

    @asynccontextmanager
    async def connect(self, _: str | None) -> AsyncIterator[Client]:
        """Yield a client, in place of `gpu_cluster.kubernetes.api.connect`."""
        yield client(self)


def _is_listed(place: str, path: str) -> bool:
    """Return whether an object is one of a list; `/api/v1/pods` lists those of all namespaces."""
    folder, _, _ = place.rpartition("/")
    start, _, kind = path.rpartition("/")
    namespaced = (
        folder.startswith(f"{start}/namespaces/") and folder.count("/") == path.count("/") + 2
    )
    return folder == path or (namespaced and folder.endswith(f"/{kind}"))


def _merge(item: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(item.get(key), dict):
            _merge(item[key], value)
        elif value is None:
            item.pop(key, None)
        else:
            item[key] = value


def node(name: str, *taints: Json, **spec: Any) -> Json:
    """Return a node."""
    metadata: Json = {"name": name, "uid": name, "labels": {}, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"taints": list(taints), **spec}, "status": {}}


def pod(name: str, **spec: Any) -> Json:
    """Return a pod of a Deployment in namespace `team-a` on node `gpu-1`."""
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    metadata = {"name": name, "namespace": "team-a", "uid": name, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"nodeName": "gpu-1", **spec}, "status": {}}


def static_pod(component: str, name: str, *, ready: bool) -> Json:
    """Return a static pod of a control plane."""
    metadata = {"name": f"{component}-{name}", "namespace": "kube-system"}
    metadata |= {"labels": {"component": component}}  # type: ignore[dict-item]
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": metadata, "spec": {"nodeName": name}, "status": status}
