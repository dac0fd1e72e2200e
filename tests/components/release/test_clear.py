"""Removal of what would make an installation fail, next to objects of tenants."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.release import clear
from tests.fixtures.api import client

Json = dict[str, Any]
SELECTOR = {"app.kubernetes.io/name": "nvidia-device-plugin"}
OTHERS = clear.Others(
    context="c",
    selectors=[f"{key}={value}" for key, value in SELECTOR.items()],
    pools=[Members(context="c", pool="a", nodes=("gpu-1",))],
)


def _of_tenant(labels: Json, spec: Json) -> Json:
    metadata = {"name": "x", "namespace": "team-a", "uid": "u-x", "labels": labels}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.promise("Labels of a tenant's objects stop no installation of a platform.")
def test_labels_of_a_tenants_objects_stop_no_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clear, "OTHERS_GONE", 0)
    template = {"metadata": {"labels": SELECTOR}, "spec": {"containers": []}}
    listed = {
        "daemonsets": [_of_tenant(LABELS, {"template": template})],
        "pods": [_of_tenant(SELECTOR, {"nodeName": "gpu-1"})],
    }
    methods = []

    def serve(request: httpx.Request) -> httpx.Response:
        methods.append(request.method)
        items = listed.get(request.url.path.rpartition("/")[2], [])
        return httpx.Response(200, json={"metadata": {}, "items": items})

    asyncio.run(clear._others_gone(client(serve), "plugin", OTHERS))
    assert {*methods} == {"GET"}


def test_a_pod_of_a_daemon_set_that_is_gone_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clear, "OTHERS_GONE", 0)
    pod = _of_tenant(SELECTOR, {"nodeName": "gpu-1"})
    owner = {"kind": "DaemonSet", "name": "gone", "uid": "u-gone", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]

    def serve(request: httpx.Request) -> httpx.Response:
        items = [pod] if request.url.path.endswith("/pods") else []
        return httpx.Response(200, json={"metadata": {}, "items": items})

    with pytest.raises(ClusterError, match="of another platform"):
        asyncio.run(clear._others_gone(client(serve), "plugin", OTHERS))
