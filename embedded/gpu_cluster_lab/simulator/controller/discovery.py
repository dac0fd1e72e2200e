"""Simulate the workers of Node Feature Discovery, which label nodes with GPUs.

A node with GPUs gets the PCI label of NVIDIA. It also gets the label of GPU Feature Discovery by
which the operator recognises MIG-capable GPUs; all simulated GPUs are MIG-capable
(NVIDIA/gpu-operator v26.7.0, controllers/state_manager.go, migCapableLabelKey).
Only nodes with a running worker pod get the labels. The DaemonSet's tolerations decide on which
tainted nodes a worker runs (NVIDIA/k8s-device-plugin v0.20.0 and NVIDIA/gpu-operator v26.7.0,
values.yaml, `worker.tolerations`). The labels remain after pods and DaemonSet are deleted; a Job
removes them after all other objects of the release are deleted (node-feature-discovery v0.18.3,
deployment/helm, template post-delete-job.yaml). So an operator of the same release never sees a
node without the labels.
"""

from __future__ import annotations

import asyncio
import logging

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import MERGE, Api, ApiError, Json
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.queue import Queue

log = logging.getLogger(__name__)

OPERATOR = "app=gpu-operator"
WORKER = "app.kubernetes.io/name=node-feature-discovery,role=worker"
PCI = "feature.node.kubernetes.io/pci-10de.present"
DIVISIBLE = "nvidia.com/mig.capable"
WORKERS = 8


class Discovery:
    """Keep the PCI labels of nodes consistent with the running Node Feature Discovery workers."""

    def __init__(self, api: Api) -> None:
        """Start without any known nodes, worker pods and operator pods."""
        self._api = api
        self._nodes: dict[str, bool] = {}
        self._seen: set[str] = set()
        self._sets: set[str] = set()
        self._operators: set[str] = set()
        self._queue = Queue(self._work)
        self.sources = Sources(4)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            for path, labels, changed, gone in (
                ("/api/v1/pods", WORKER, self._pod_changed, _do_nothing),
                ("/api/v1/pods", OPERATOR, self._operator_changed, self._operator_gone),
                ("/apis/apps/v1/daemonsets", WORKER, self._set_changed, self._set_gone),
            ):
                source = self.sources.source()
                group.create_task(
                    follow(self._api, path, changed, gone, source, labelSelector=labels)
                )

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        for name in self._nodes:
            self._queue.add(name)
        await self._queue.run(WORKERS)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add it to the queue."""
        notes = item["metadata"].get("annotations") or {}
        if int(notes.get(marks.GPUS, "0")):
            self._nodes[item["metadata"]["name"]] = marks.DISCOVERED in notes
            self._queue.add(item["metadata"]["name"])

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)

    def _pod_changed(self, item: Json) -> None:
        if (item.get("status") or {}).get("phase") == "Running" and "nodeName" in item["spec"]:
            self._seen.add(item["spec"]["nodeName"])
            self._queue.add(item["spec"]["nodeName"])

    def _operator_changed(self, item: Json) -> None:
        self._operators.add(item["metadata"]["uid"])

    def _operator_gone(self, item: Json) -> None:
        self._operators.discard(item["metadata"]["uid"])
        self._prune()

    def _set_changed(self, item: Json) -> None:
        if "deletionTimestamp" not in item["metadata"]:
            self._sets.add(item["metadata"]["uid"])

    def _set_gone(self, item: Json) -> None:
        self._sets.discard(item["metadata"]["uid"])
        self._prune()

    def _prune(self) -> None:
        if not self._sets and not self._operators:
            self._seen.clear()
            for name in self._nodes:
                self._queue.add(name)

    async def _work(self, name: str) -> None:
        discovered = self._nodes.get(name)
        is_labelled = bool(discovered) or name in self._seen
        if not self._sets and not self._operators:
            is_labelled = False
        if discovered is None or is_labelled == discovered:
            return
        value = "true" if is_labelled else None
        node_labels = {PCI: value, DIVISIBLE: value}
        labels = {"labels": node_labels, "annotations": {marks.DISCOVERED: value}}
        try:
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": labels}, MERGE)
        except ApiError as error:
            if error.code != 404:
                raise
        self._nodes[name] = bool(is_labelled)
        log.info("node %s: %s %s", name, PCI, value)


def _do_nothing(_: Json) -> None:
    """Do nothing when a worker pod is deleted, because its node keeps the labels."""
