"""Manifests of node agents, which mount host paths."""

from __future__ import annotations

from typing import Any


def agent(
    *paths: str,
    read_only: bool = False,
    kind: str = "DaemonSet",
    namespace: str = "m",
    **fields: Any,
) -> Any:
    """Return an agent that mounts host paths, and tolerates each taint."""
    names = [f"v{index}" for index, _ in enumerate(paths)]
    mounts = [{"name": name, "mountPath": f"/{name}", "readOnly": read_only} for name in names]
    container = {"name": "a", "image": "quay.io/agents/a:1", "volumeMounts": mounts, **fields}
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            {"name": name, "hostPath": {"path": path}}
            for name, path in zip(names, paths, strict=True)
        ],
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": "a"}}, "spec": spec}
    metadata = {"name": "a", "namespace": namespace}
    body = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}
