"""Simulate the device plugin, the kubelet's device manager and CUDA tests on simulated nodes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from gpu_cluster_lab.simulator import marks, stages
from gpu_cluster_lab.simulator.api import MERGE, Api, Json
from gpu_cluster_lab.simulator.controller import events, hami, judge
from gpu_cluster_lab.simulator.controller.devices import Resources
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.offered import Configurations, Plugin, hidden_gpus
from gpu_cluster_lab.simulator.controller.preparation import Preparation
from gpu_cluster_lab.simulator.controller.queue import Queue
from gpu_cluster_lab.simulator.controller.seen import is_changed
from gpu_cluster_lab.simulator.controller.validations import Validations

log = logging.getLogger(__name__)

#: Number of nodes that are processed in parallel.
WORKERS = 16
#: Seconds between two checks of the files of the simulated SSH hosts.
LOOK = 0.25

#: Reason of the kubelet's Events for a pod whose sandbox can't be created (kubernetes v1.34
#: pkg/kubelet/events/event.go, FailedCreatePodSandBox).
SANDBOX = "FailedCreatePodSandBox"

#: Label selectors of the watched pods. There is one watch per selector, because a label selector
#: can't combine different keys with "or".
SELECTORS = (
    f"app.kubernetes.io/name={stages.PLUGIN_NAME}",
    f"name={stages.STATIC_PLUGIN}",
    f"app in ({stages.OPERATOR_PLUGIN_APP},nvidia-container-toolkit-daemonset)",
    f"{stages.HAMI_KEY}={stages.HAMI}",
    marks.VALIDATION,
)


class DevicePlugins:
    """Simulated device plugins: keep GPU resources of nodes and results of pods up to date.

    The results depend on the Kubernetes objects in the cluster and on the faults of the simulated
    nodes.
    """

    def __init__(self, api: Api, preparation: Preparation, log_folder: Path) -> None:
        """Start without any known nodes and pods."""
        self._api = api
        self._preparation = preparation
        self._nodes: dict[str, judge.Node] = {}
        self._pods: dict[str, dict[str, judge.Pod]] = defaultdict(dict)
        self._prepared: dict[str, bool] = {}
        self._files: dict[tuple[str, str], dict[str, str]] = {}
        self._configurations = Configurations()
        self._queue = Queue(self._work)
        self._validations = Validations(api, log_folder, self._queue.add)
        self.sources = Sources(len(SELECTORS) + 2)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            group.create_task(self._watch_hosts())
            files = follow(
                self._api,
                "/api/v1/configmaps",
                self._files_changed,
                self._files_gone,
                self.sources.source(),
            )
            group.create_task(files)
            for selector in SELECTORS:
                pods = follow(
                    self._api,
                    "/api/v1/pods",
                    self._pod_changed,
                    self._pod_gone,
                    self.sources.source(),
                    labelSelector=selector,
                )
                group.create_task(pods)

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        await self._queue.run(WORKERS)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add it to the queue."""
        node = judge.read_node(item)
        if node is not None and is_changed(self._nodes, node):
            self._queue.add(node.name)

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)

    def _files_changed(self, item: Json) -> None:
        key = item["metadata"]["namespace"], item["metadata"]["name"]
        data = item.get("data") or {}
        if self._files.get(key) != data:
            self._files[key] = data
            for node, pods in self._pods.items():
                if any(key in (p.plugin.config_map, p.plugin.exclusions) for p in pods.values()):
                    self._queue.add(node)

    def _files_gone(self, item: Json) -> None:
        self._files.pop((item["metadata"]["namespace"], item["metadata"]["name"]), None)

    def _pod_changed(self, item: Json) -> None:
        pod = judge.read_pod(item)
        known_pod = self._pods[pod.node].get(pod.uid)
        if pod.node and not (known_pod and known_pod.version >= pod.version):
            self._pods[pod.node][pod.uid] = pod
            self._queue.add(pod.node)

    def _pod_gone(self, item: Json) -> None:
        node = item["spec"].get("nodeName", "")
        self._configurations.forget(item["metadata"]["uid"])
        if self._pods[node].pop(item["metadata"]["uid"], None):
            self._queue.add(node)

    async def _watch_hosts(self) -> None:
        while True:
            for node in list(self._nodes.values()):
                if node.host is None:
                    continue
                prepared = self._preparation.look(node.host)
                if self._prepared.get(node.name) != prepared:
                    log.info("node %s: host %s prepared: %s", node.name, node.host, prepared)
                    self._prepared[node.name] = prepared
                    self._queue.add(node.name)
            await asyncio.sleep(LOOK)

    def _is_prepared(self, node: judge.Node, pods: list[judge.Pod]) -> bool:
        """Check that the container runtime `nvidia` is configured on a node.

        Either files of the node's SSH host configure the runtime, or the GPU Operator's container
        toolkit pod is ready, which would write these files.
        """
        if node.host is None:
            return True
        return self._prepared.get(node.name, False) or any(
            pod.is_toolkit and pod.ready for pod in pods
        )

    async def _work(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or (node.host is not None and node.name not in self._prepared):
            return  # The node is deleted, or the files of its SSH host have not been checked yet.
        pods = list(self._pods[name].values())
        # The GPU Operator's device plugin waits in an init container until the container toolkit is
        # ready.
        waits = any(pod.is_toolkit and not pod.ready for pod in pods)
        problem = judge.plugin_message(node, self._is_prepared(node, pods))
        for pod in pods:
            if not (pod.is_validation or pod.is_toolkit or waits):
                new_outcome = judge.plugin_outcome(pod, problem or self._refusal(node, pod))
                if (pod.outcome, pod.message) != new_outcome:
                    await self._decide(pod, *new_outcome)
        serving = [
            pod
            for pod in pods
            if pod.is_plugin and pod.ready and not (problem or self._refusal(node, pod))
        ]
        plugin = self._with_hidden(serving[0]) if serving else None
        file = self._configuration(node, serving[0]) if serving else {}
        await self._set_message(node, judge.node_message(node, problem))
        await self._set_resources(node, *judge.resources(node, plugin, file))
        await self._register(node, judge.registration(node, plugin, file))
        devices = judge.healthy(node, plugin, file) if plugin else []
        for pod in pods:
            if pod.is_validation and pod.phase == "Running":
                await self._validations.work(node, pod, devices, problem)

    def _with_hidden(self, pod: judge.Pod) -> Plugin:
        """Return the settings of a plugin's pod, with the GPUs that HAMi's own file leaves out."""
        if pod.plugin.exclusions is None:
            return pod.plugin
        data = self._files.get(pod.plugin.exclusions, {})
        return replace(pod.plugin, hidden=hidden_gpus(data.get("config.json", "")))

    async def _register(self, node: judge.Node, text: str) -> None:
        """Write the annotation with which HAMi's plugin registers GPUs at HAMi's scheduler."""
        if node.registered != text:
            notes = {hami.REGISTERED: text or None}
            body = {"metadata": {"annotations": notes}}
            await self._patch(node, f"/api/v1/nodes/{node.name}", body)

    def _refusal(self, node: judge.Node, pod: judge.Pod) -> str | None:
        """Return the configuration error with which a node's device plugin would exit, or None."""
        file = self._configuration(node, pod) if pod.is_plugin else {}
        return judge.mig_message(node, pod.plugin, file)

    def _configuration(self, node: judge.Node, pod: judge.Pod) -> Json:
        plugin = pod.plugin
        data = self._files.get(plugin.config_map, {}) if plugin.config_map else {}
        return self._configurations.of(pod.uid, plugin, node.config, data)

    async def _decide(self, pod: judge.Pod, outcome: str, message: str) -> None:
        notes = {marks.OUTCOME: outcome, marks.MESSAGE: message or None}
        body = {"metadata": {"annotations": notes}}
        response = await self._api.request("PATCH", pod.path, body, MERGE)
        if outcome == stages.WITHOUT_SANDBOX:
            await self._api.request("POST", *events.of_kubelet(pod.object, SANDBOX, message))
        if pod.uid in self._pods[pod.node]:
            self._pod_changed(response)

    async def _set_message(self, node: judge.Node, message: str) -> None:
        if node.message != message and node.gpus:
            notes = {marks.FAULT_MESSAGE: message or None}
            body = {"metadata": {"annotations": notes}}
            await self._patch(node, f"/api/v1/nodes/{node.name}", body)

    async def _set_resources(
        self, node: judge.Node, capacity: Resources, allocatable: Resources
    ) -> None:
        if (node.capacity, node.allocatable) == (capacity, allocatable):
            return

        def merge(old: Resources, new: Resources) -> dict[str, str | None]:
            gone: dict[str, str | None] = dict.fromkeys(old.keys() - new.keys())
            return {**gone, **{name: str(count) for name, count in new.items()}}

        status = {
            "capacity": merge(node.capacity, capacity),
            "allocatable": merge(node.allocatable, allocatable),
        }
        path = f"/api/v1/nodes/{node.name}/status"
        await self._patch(node, path, {"status": status})
        log.info("node %s: %s of %s allocatable", node.name, allocatable, capacity)

    async def _patch(self, node: judge.Node, path: str, body: Json) -> None:
        response = await self._api.request("PATCH", path, body, MERGE)
        if node.name in self._nodes:
            self.node_changed(response)
