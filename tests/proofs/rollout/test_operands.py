"""Before a node's driver changes, GPU pods leave the node, and other pods stay.

The DaemonSet controller of the control plane is real.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gpu_cluster.desired.rollout import Operands
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.rollout import operands
from tests.proofs.rollout.site import Site

pytestmark = pytest.mark.full

Json = dict[str, Any]
OPERANDS = Operands(spaces=("ours",), namespace="kube-system", labels={"name": "plugin"})


def daemons(site: Site, namespace: str, name: str, **spec: Any) -> None:
    labels = {"name": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "sample"}], **spec},
    }
    body = {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    site.request("POST", f"namespaces/{namespace}/daemonsets", base="/apis/apps", body=body)


def on_node(site: Site, node: str) -> dict[str, str]:
    query = {"fieldSelector": f"spec.nodeName={node}"}
    pods = site.request("GET", "pods", params=query)["items"]
    return {
        p["metadata"]["labels"]["name"]: p["metadata"]["uid"]
        for p in pods
        if "name" in p["metadata"].get("labels", {}) and not p["metadata"].get("deletionTimestamp")
    }


def awaited(site: Site, node: str, names: set[str]) -> dict[str, str]:
    deadline = time.monotonic() + 60
    while (pods := on_node(site, node)).keys() != names:
        assert time.monotonic() < deadline, (pods, names)
        time.sleep(0.2)
    return pods


def run(site: Site, switch: Any, *more: Any) -> None:
    async def work() -> None:
        async with connect(site.document["kubernetes"]["context"]) as client:
            await switch(client, "gpu-1", *more)

    asyncio.run(work())


def test_the_platforms_daemons_leave_one_node_and_others_stay(site: Site) -> None:
    site.request("POST", "namespaces", body={"metadata": {"name": "ours"}})
    daemons(site, "ours", "exporter")
    daemons(site, "kube-system", "plugin")
    daemons(site, "kube-system", "proxy")
    daemons(site, "default", "logs")
    everything = {"exporter", "plugin", "proxy", "logs"}
    before = awaited(site, "gpu-1", everything)
    other = awaited(site, "gpu-2", everything)
    run(site, operands.off, OPERANDS, 30)
    after = awaited(site, "gpu-1", {"proxy", "logs"})
    assert after == {name: before[name] for name in ("proxy", "logs")}
    assert on_node(site, "gpu-2") == other
    run(site, operands.on)
    again = awaited(site, "gpu-1", everything)
    assert again["plugin"] != before["plugin"]
    for space, name in (
        ("ours", "exporter"), ("kube-system", "plugin"), ("kube-system", "proxy"),
        ("default", "logs"),
    ):  # fmt: skip
        site.request("DELETE", f"namespaces/{space}/daemonsets/{name}", base="/apis/apps")
