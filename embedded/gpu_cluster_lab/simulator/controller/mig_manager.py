"""Simulate MIG manager: partition a node's GPUs by the node's label.

Like the real MIG manager, the simulation acts when its pod starts and when the label's value
changes, but not when the content of a layout changes. It stops no workload, so partitioning fails
if GPUs are in use (NVIDIA/mig-parted v0.15.0, cmd/nvidia-mig-manager/main.go,
ContinuouslySyncMigConfigChanges; pkg/mig/reconfigure/reconfigure.go, Run). Unlike the real MIG
manager, it doesn't pause the other operands.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import yaml

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import MERGE, Api, ApiError, Json
from gpu_cluster_lab.simulator.controller import operand_objects, operands
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.offered import owned
from gpu_cluster_lab.simulator.controller.queue import Queue

log = logging.getLogger(__name__)

WORKERS = 8
PODS = "app=nvidia-mig-manager"
SYNC = 60.0
"""Seconds until a pod sees changed content of its mounted ConfigMap.

The kubelet updates mounted ConfigMaps every `syncFrequency` (Kubernetes documentation,
"ConfigMaps", mounted ConfigMaps).
"""
FINISHED = ("Succeeded", "Failed")


@dataclass
class _Manager:
    """State of a running MIG manager pod: its ConfigMap, and the layout that it applied last."""

    uid: str
    config_map: str
    text: str = ""
    read: float = 0.0
    acted: str = ""


def layouts(text: str) -> dict[str, str]:
    """Return the MIG devices of one GPU by layout name, in the format of `marks.MIG`.

    `text` is a file in mig-parted's format (api/spec/v1). Without such a file, the real MIG manager
    generates layouts for the hardware; the simulation then only has the layout without MIG devices.
    """
    if not text:
        return {operands.MIG_DISABLED: ""}
    document = yaml.safe_load(text) or {}
    return {
        name: ",".join(
            f"{profile}={count}"
            for layout_entry in entries
            for profile, count in (layout_entry.get("mig-devices") or {}).items()
        )
        for name, entries in (document.get("mig-configs") or {}).items()
    }


class MigManagers:
    """Simulate the MIG managers of all nodes."""

    def __init__(self, api: Api) -> None:
        """Start without any known nodes and MIG manager pods."""
        self._api = api
        self._nodes: dict[str, tuple[str, str]] = {}
        self._managers: dict[str, _Manager] = {}
        self._queue = Queue(self._work)
        self.sources = Sources(2)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            source = self.sources.source()
            pods = follow(
                self._api,
                "/api/v1/pods",
                self._pod_changed,
                self._pod_gone,
                source,
                labelSelector=PODS,
            )
            group.create_task(pods)

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        await self._queue.run(WORKERS)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add it to the queue."""
        meta = item["metadata"]
        layout = (meta.get("labels") or {}).get(operands.MIG_LAYOUT, "")
        before = self._nodes.get(meta["name"], ("", ""))
        self._nodes[meta["name"]] = layout, (meta.get("annotations") or {}).get(marks.MIG, "")
        if layout != before[0]:
            self._queue.add(meta["name"])

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)

    def _pod_changed(self, item: Json) -> None:
        meta, node = item["metadata"], item["spec"].get("nodeName", "")
        manager = self._managers.get(node)
        if (item.get("status") or {}).get("phase") != "Running" or (
            manager and manager.uid == meta["uid"]
        ):
            return
        # The MIG manager's pod mounts two ConfigMaps: first the layouts, then the list of GPU
        # clients (`operand_objects`).
        name = item["spec"]["volumes"][0]["configMap"]["name"]
        # This ConfigMap doesn't exist here; the real operator generates it for the node's hardware.
        is_of_operator = name == operand_objects.MIG_LAYOUTS
        path = "" if is_of_operator else f"/api/v1/namespaces/{meta['namespace']}/configmaps/{name}"
        self._managers[node] = _Manager(meta["uid"], path)
        self._queue.add(node)

    def _pod_gone(self, item: Json) -> None:
        node = item["spec"].get("nodeName", "")
        manager = self._managers.get(node)
        if manager and manager.uid == item["metadata"]["uid"]:
            del self._managers[node]

    async def _work(self, name: str) -> None:
        manager = self._managers.get(name)
        layout, devices = self._nodes.get(name, ("", ""))
        if manager is None:
            return
        await self._mount(manager)
        if not layout or manager.acted == layout:
            return
        known_layouts = layouts(manager.text)
        if layout not in known_layouts:
            await self._say(name, "failed")
        elif known_layouts[layout] == devices:
            await self._say(name, "success")
        else:
            await self._say(name, "pending")
            if await self._in_use(name):
                await self._say(name, "failed")
            else:
                notes = {"annotations": {marks.MIG: known_layouts[layout] or None}}
                await self._patch(name, notes)
                await self._say(name, "success")
        manager.acted = layout

    async def _mount(self, manager: _Manager) -> None:
        now = asyncio.get_running_loop().time()
        if manager.config_map and (not manager.read or now - manager.read > SYNC):
            config_map = await self._api.request("GET", manager.config_map)
            manager.text = (config_map.get("data") or {}).get("config.yaml", "")
            manager.read = now

    async def _in_use(self, name: str) -> bool:
        """Check that a pod uses a GPU of the node.

        While a pod uses a GPU, nvidia-mig-parted can't partition the GPUs.
        """
        selector = f"spec.nodeName={name}"
        pods, _ = await self._api.list("/api/v1/pods", fieldSelector=selector)
        return any(
            owned((container.get("resources") or {}).get("limits"))
            for pod in pods
            if (pod.get("status") or {}).get("phase") not in FINISHED
            for container in pod["spec"]["containers"]
        )

    async def _say(self, name: str, state: str) -> None:
        log.info("node %s: MIG manager: %s", name, state)
        await self._patch(name, {"labels": {operands.MIG_STATE: state}})

    async def _patch(self, name: str, metadata: Json) -> None:
        try:
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": metadata}, MERGE)
        except ApiError as error:
            if error.code != 404:
                raise
