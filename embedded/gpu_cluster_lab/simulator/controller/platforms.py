"""Simulate gpu-manager, NVIDIA's DRA driver and the driver installer on simulated nodes.

gpu-manager advertises shared cards as extended resources, the DRA driver publishes ResourceSlices,
and the installer loads a driver. Annotations mark the results as simulated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass

from gpu_cluster_lab.simulator import marks, stages
from gpu_cluster_lab.simulator.api import MERGE, Api, ApiError, Json
from gpu_cluster_lab.simulator.controller import offers
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.manager_flags import refusal
from gpu_cluster_lab.simulator.controller.queue import Queue
from gpu_cluster_lab.simulator.controller.seen import is_changed

log = logging.getLogger(__name__)

#: Number of nodes that are processed in parallel.
WORKERS = 16
SELECTORS = {
    "manager": f"{stages.MANAGER_KEY}={stages.MANAGER}",
    "dra": f"{stages.DRA_KEY}={stages.DRA}",
    "installer": stages.INSTALLER,
}


@dataclass(frozen=True)
class Pod:
    """Pod of gpu-manager, the DRA driver or the installer; `kind` is a key of `SELECTORS`."""

    kind: str
    path: str
    version: int
    ready: bool
    outcome: str
    message: str
    driver: str
    refusal: str


def read_pod(kind: str, item: Json) -> Pod:
    """Read the state of a gpu-manager, DRA driver or installer pod from a Pod object."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    notes = meta.get("annotations") or {}
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    environment = {
        variable["name"]: variable.get("value", "")
        for container in containers
        for variable in container.get("env") or []
    }
    return Pod(
        kind=kind,
        path=f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
        version=int(meta["resourceVersion"]),
        ready="deletionTimestamp" not in meta
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in status.get("conditions") or []
        ),
        outcome=notes.get(marks.OUTCOME, ""),
        message=notes.get(marks.MESSAGE, ""),
        driver=environment.get("NVIDIA_DRIVER_VERSION", ""),
        refusal=refusal(item) if kind == "manager" else "",
    )


def _pod_outcome(node: offers.Node, pod: Pod) -> tuple[str, str]:
    """Return the outcome and the error message of a gpu-manager, DRA driver or installer pod.

    A pod whose flags are invalid crashes on every node.
    """
    return (stages.CRASHING, pod.refusal) if pod.refusal else offers.outcome(node, pod.kind)


class Platforms:
    """Keep the GPU resources of nodes consistent with the pods that advertise them.

    The pods are those of gpu-manager, the DRA driver and the driver installer.
    """

    def __init__(self, api: Api) -> None:
        """Start without any known nodes, pods and ResourceSlices."""
        self._api = api
        self._nodes: dict[str, offers.Node] = {}
        self._pods: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._slices: dict[str, int] = {}
        self._queue = Queue(self._work)
        self.sources = Sources(len(SELECTORS) + 2)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            slices = follow(
                self._api,
                offers.SLICES,
                self._slice_changed,
                self._slice_gone,
                self.sources.source(),
            )
            group.create_task(slices)
            for kind, selector in SELECTORS.items():
                group.create_task(self._follow_pods(kind, selector))

    async def _follow_pods(self, kind: str, selector: str) -> None:
        def changed(item: Json) -> None:
            node, uid = item["spec"].get("nodeName", ""), item["metadata"]["uid"]
            pod = read_pod(kind, item)
            known_pod = self._pods[node].get(uid)
            if node and not (known_pod and known_pod.version >= pod.version):
                self._pods[node][uid] = pod
                self._queue.add(node)

        def gone(item: Json) -> None:
            node = item["spec"].get("nodeName", "")
            if self._pods[node].pop(item["metadata"]["uid"], None):
                self._queue.add(node)

        source = self.sources.source()
        await follow(self._api, "/api/v1/pods", changed, gone, source, labelSelector=selector)

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        await self._queue.run(WORKERS)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add it to the queue."""
        node = offers.read_node(item)
        if node is not None and is_changed(self._nodes, node):
            self._queue.add(node.name)

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)

    def _slice_changed(self, item: Json) -> None:
        if marks.SIMULATED_OPERAND in (item["metadata"].get("annotations") or {}):
            self._slices[item["spec"]["nodeName"]] = len(item["spec"].get("devices") or [])

    def _slice_gone(self, item: Json) -> None:
        name = item["spec"].get("nodeName", "")
        if self._slices.pop(name, None) is not None:
            self._queue.add(name)

    async def _work(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        pods = list(self._pods[name].values())
        for pod in pods:
            await self._decide(pod, *_pod_outcome(node, pod))
        installed = next(
            (p.driver for p in pods if p.kind == "installer" and p.ready and not p.message), ""
        )
        if installed and node.driver_loaded != installed:
            await self._note(name, {marks.DRIVER_LOADED: installed})
            # The annotation changes the node object, so the watch adds the node to the queue again.
            return
        working = {pod.kind for pod in pods if pod.ready and _pod_outcome(node, pod)[1] == ""}
        await self._set_cards(node, "manager" in working)
        await self._set_slice(node, "dra" in working)

    async def _decide(self, pod: Pod, outcome: str, message: str) -> None:
        if (pod.outcome, pod.message) != (outcome, message):
            notes = {marks.OUTCOME: outcome, marks.MESSAGE: message or None}
            await self._api.request("PATCH", pod.path, {"metadata": {"annotations": notes}}, MERGE)

    async def _note(self, name: str, notes: dict[str, str]) -> None:
        body = {"metadata": {"annotations": notes}}
        response = await self._api.request("PATCH", f"/api/v1/nodes/{name}", body, MERGE)
        self.node_changed(response)

    async def _set_cards(self, node: offers.Node, advertised: bool) -> None:
        new_cards = offers.cards(node, advertised)
        if new_cards == node.cards:
            return
        capacity, allocatable = new_cards
        status = {"capacity": capacity, "allocatable": allocatable}
        path = f"/api/v1/nodes/{node.name}/status"
        response = await self._api.request("PATCH", path, {"status": status}, MERGE)
        log.info("node %s: cards %s", node.name, allocatable)
        self.node_changed(response)

    async def _set_slice(self, node: offers.Node, advertised: bool) -> None:
        advertised_gpus = node.gpus - node.faults.unhealthy if advertised else None
        if self._slices.get(node.name) == advertised_gpus:
            return
        if node.name in self._slices:
            self._slices.pop(node.name)
            try:
                await self._api.request("DELETE", f"{offers.SLICES}/{offers.slice_name(node)}")
            except ApiError as error:
                if error.code != 404:
                    raise
        if advertised_gpus is not None:
            await self._api.request(
                "POST", offers.SLICES, offers.resource_slice(node, advertised_gpus)
            )
            self._slices[node.name] = advertised_gpus
            log.info("node %s: ResourceSlice with %s GPUs", node.name, advertised_gpus)
