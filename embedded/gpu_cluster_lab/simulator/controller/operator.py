"""Simulate the GPU Operator: create operands while its pod runs and a ClusterPolicy exists.

The pod must be on a simulated node: elsewhere a real kubelet runs the real operator.

Like the real operator, the simulation keeps its node labels when the policy is deleted
(NVIDIA/gpu-operator#1391). If no node has GPUs, it creates no DaemonSet, leaves existing DaemonSets
unchanged, and sets the policy's status to ready (v24.3.0 and v26.7.0,
controllers/object_controls.go, hasGPUNodes).
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import MERGE, Api, ApiError, Json, gather
from gpu_cluster_lab.simulator.controller import operand_objects, operands, operator_nodes
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.queue import Queue

log = logging.getLogger(__name__)

OPERATOR_POD = "app=gpu-operator,app.kubernetes.io/component=gpu-operator"
MANAGED = ",".join(f"{key}={value}" for key, value in operands.MANAGED_BY.items())
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
#: Prefixes of the node labels that the operator reads.
_READ = ("nvidia.com/", *operator_nodes.GPU_LABELS)
_NOTES = (operator_nodes.UPGRADE,)


class Operator:
    """Simulated GPU Operator: keeps operands, RuntimeClasses, node labels and status up to date."""

    def __init__(self, api: Api) -> None:
        """Start without any known nodes, pods and DaemonSets."""
        self._api = api
        self._policy: Json | None = None
        self._pods: dict[str, tuple[str, str]] = {}
        self._simulated: set[str] = set()
        self._daemon_sets: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}
        self._divided: set[str] = set()
        self._applied: tuple[str, str, bool] | None = None
        self._queue = Queue(self._work)
        self.sources = Sources(4)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process the ClusterPolicy until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            policies = follow(
                self._api,
                operands.POLICIES,
                self._policy_changed,
                self._policy_gone,
                self.sources.source(),
            )
            group.create_task(policies)
            pods = follow(
                self._api,
                "/api/v1/pods",
                self._pod_changed,
                self._pod_gone,
                self.sources.source(),
                labelSelector=OPERATOR_POD,
            )
            group.create_task(pods)
            daemon_sets = follow(
                self._api,
                "/apis/apps/v1/daemonsets",
                self._daemon_set_changed,
                self._daemon_set_gone,
                self.sources.source(),
                labelSelector=MANAGED,
            )
            group.create_task(daemon_sets)

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        await self._queue.run(1)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add the ClusterPolicy to the queue."""
        meta = item["metadata"]
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        if marks.FAKE_NODE in notes and meta["name"] not in self._simulated:
            self._simulated.add(meta["name"])
            self._queue.add(operands.POLICY)
        if operands.MIG_STATE in labels:
            self._divided.add(meta["name"])
        if not (operator_nodes.has_gpus(labels) or operator_nodes.is_present(labels)):
            self._nodes.pop(meta["name"], None)
            return
        node_facts = {
            "labels": {k: v for k, v in labels.items() if k.startswith(_READ)},
            "annotations": {k: v for k, v in notes.items() if k in _NOTES},
        }
        if self._nodes.get(meta["name"]) != node_facts:
            self._nodes[meta["name"]] = node_facts
            self._queue.add(operands.POLICY)

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)
        self._simulated.discard(item["metadata"]["name"])
        self._divided.discard(item["metadata"]["name"])

    def _policy_changed(self, item: Json) -> None:
        if item["metadata"]["name"] == operands.POLICY:
            gone = "deletionTimestamp" in item["metadata"]
            self._policy = None if gone else item
            self._queue.add(operands.POLICY)

    def _policy_gone(self, item: Json) -> None:
        if item["metadata"]["name"] == operands.POLICY:
            self._policy = None
            self._queue.add(operands.POLICY)

    def _pod_changed(self, item: Json) -> None:
        conditions = (item.get("status") or {}).get("conditions") or []
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        if ready and "deletionTimestamp" not in item["metadata"]:
            place = (item["spec"].get("nodeName", ""), item["metadata"]["namespace"])
            self._pods[item["metadata"]["uid"]] = place
            self._queue.add(operands.POLICY)
        else:
            self._pod_gone(item)

    def _pod_gone(self, item: Json) -> None:
        self._pods.pop(item["metadata"]["uid"], None)

    def _daemon_set_changed(self, item: Json) -> None:
        if marks.SIMULATED_OPERAND in (item["metadata"].get("annotations") or {}):
            self._daemon_sets[item["metadata"]["name"]] = item
            self._queue.add(operands.POLICY)

    def _daemon_set_gone(self, item: Json) -> None:
        if self._daemon_sets.pop(item["metadata"]["name"], None):
            self._queue.add(operands.POLICY)

    async def _work(self, _: str) -> None:
        # While an await below waits, the policy may be deleted. The deletion adds the key to the
        # queue again.
        policy = self._policy
        if policy is None:
            await self._clean()
        elif namespace := self._namespace():
            await self._label(policy)
            await self._apply(policy, namespace)
            await self._report(policy, namespace)

    def _namespace(self) -> str:
        """Return the namespace of the simulated operator's pod; empty if no such pod is ready.

        A pod on a real kubelet's node runs the real operator.
        """
        namespaces = (space for node, space in self._pods.values() if node in self._simulated)
        return next(namespaces, "")

    async def _label(self, policy: Json) -> None:
        async def write(name: str, body: Json) -> None:
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": body}, MERGE)

        driver = self._daemon_sets.get(operands.DRIVER)
        runs = driver is not None and operands.is_ready([driver])
        patches = {
            name: operator_nodes.patch(node, policy, runs) for name, node in self._nodes.items()
        }
        await gather(*(write(name, body) for name, body in patches.items() if body))

    async def _apply(self, policy: Json, namespace: str) -> None:
        enabled_operands = {item.name: item for item in operands.enabled(policy)}
        meta, served = policy["metadata"], self._has_gpus()
        generation = (meta["uid"], str(meta["generation"]), served)
        fresh = self._applied != generation
        for name, operand in enabled_operands.items() if served else ():
            body = operand_objects.daemon_set(operand, policy, namespace)
            path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
            if name not in self._daemon_sets:
                await self._create(path, body)
            elif fresh:
                await self._api.request("PATCH", f"{path}/{name}", body, MERGE)
        if fresh:
            await self._own(policy)
            unwanted = [
                item for name, item in self._daemon_sets.items() if name not in enabled_operands
            ]
            for item in unwanted:
                await self._delete_daemon_set(item)
        self._applied = generation

    async def _create(self, path: str, body: Json) -> None:
        try:
            await self._api.request("POST", path, body)
            log.info("created %s %s", body["kind"], body["metadata"]["name"])
        except ApiError as error:
            if error.code != 409:
                raise

    async def _own(self, policy: Json) -> None:
        """Create the operator's RuntimeClasses.

        Existing RuntimeClasses are overwritten, as the real operator does.
        """
        classes = {
            body["metadata"]["name"]: body for body in operand_objects.runtime_classes(policy)
        }
        for name, body in classes.items():
            await self._create(CLASSES, body)
            await self._api.request("PATCH", f"{CLASSES}/{name}", body, MERGE)
        await self._disown(*classes)

    async def _disown(self, *names_to_keep: str) -> None:
        for item in (await self._api.list(CLASSES, labelSelector=MANAGED))[0]:
            if item["metadata"]["name"] not in names_to_keep:
                await self._delete(f"{CLASSES}/{item['metadata']['name']}")

    async def _report(self, policy: Json, namespace: str) -> None:
        items = [self._daemon_sets.get(item.name) for item in operands.enabled(policy)]
        served = self._has_gpus()
        ready = None not in items and operands.is_ready([item for item in items if item])
        before = policy.get("status") or {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = operands.policy_status(ready or not served, namespace, before, now, served)
        if status != before:
            path = f"{operands.POLICIES}/{operands.POLICY}/status"
            await self._api.request("PATCH", path, {"status": status}, MERGE)
            log.info("policy %s: %s", operands.POLICY, status["state"])

    def _has_gpus(self) -> bool:
        return any(operator_nodes.has_gpus(node["labels"]) for node in self._nodes.values())

    async def _clean(self) -> None:
        """Delete the operands and RuntimeClasses of a deleted ClusterPolicy.

        Kubernetes' garbage collector would need up to a minute.
        """
        if self._applied or self._daemon_sets:
            await self._disown()
        for item in list(self._daemon_sets.values()):
            await self._delete_daemon_set(item)
        self._applied = None
        for name in list(self._divided):
            gone = {"labels": {operands.MIG_STATE: None}, "annotations": {marks.MIG: None}}
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": gone}, MERGE)
            self._divided.discard(name)

    async def _delete_daemon_set(self, item: Json) -> None:
        meta = item["metadata"]
        path = f"/apis/apps/v1/namespaces/{meta['namespace']}/daemonsets/{meta['name']}"
        await self._delete(path)

    async def _delete(self, path: str) -> None:
        try:
            await self._api.request("DELETE", path, propagationPolicy="Background")
        except ApiError as error:
            if error.code != 404:
                raise
