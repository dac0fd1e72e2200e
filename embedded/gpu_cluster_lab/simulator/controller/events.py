"""Events about pods, as the kubelet or a scheduler writes them. Pure functions."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from gpu_cluster_lab.simulator.api import Json


def of_kubelet(pod: Json, reason: str, message: str) -> tuple[str, Json]:
    """Return the path and the body of an Event of the kubelet of a pod's node.

    Source: kubernetes v1.34 staging/src/k8s.io/client-go/tools/record/event.go, makeEvent.
    """
    return _warning(pod, reason, message, {"component": "kubelet", "host": pod["spec"]["nodeName"]})


def of_scheduler(pod: Json, scheduler: str, reason: str, message: str) -> tuple[str, Json]:
    """Return the path and the body of an Event of a scheduler."""
    return _warning(pod, reason, message, {"component": scheduler})


def _warning(pod: Json, reason: str, message: str, source: Json) -> tuple[str, Json]:
    """Return an Event with the name that client-go gives it, so that lists are in its order."""
    meta, now = pod["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{time.time_ns():x}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": source,
        "reportingComponent": source["component"],
        "reportingInstance": source.get("host", ""),
    }
    return f"/api/v1/namespaces/{meta['namespace']}/events", body
