"""Simulate HAMi's scheduler and admission webhook.

Both work as long as a pod of HAMi's scheduler is ready. The webhook is reached at an address of
this process, because an embedded cluster has no network of Services.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from contextlib import suppress

import aiohttp
import yaml
from aiohttp import web

from gpu_cluster_lab.simulator.api import MERGE, Access, Api, ApiError, Json
from gpu_cluster_lab.simulator.controller import events, hami
from gpu_cluster_lab.simulator.controller.follow import Sources, follow

log = logging.getLogger(__name__)

COMPONENT = "app.kubernetes.io/component=hami-scheduler"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WEBHOOK = "simulated-hami-webhook"
#: Seconds to wait after a failed request.
RETRY = 1.0


class HamiScheduler:
    """Simulated scheduler of HAMi: admit pods with GPUs, and place them on nodes."""

    def __init__(self, api: Api, access: Access) -> None:
        """Start without any known objects.

        Args:
            access: Certificates of the cluster, with which the webhook is served.
        """
        self._api = api
        self._access = access
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._schedulers: dict[str, Json] = {}
        self._configurations: dict[tuple[str, str], Json] = {}
        self._told: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.sources = Sources(4)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects, serve the webhook and place pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                self._follow("/api/v1/pods", self._pods, "fieldSelector", hami_pods())
            )
            group.create_task(
                self._follow("/api/v1/pods", self._schedulers, "labelSelector", COMPONENT)
            )
            group.create_task(
                self._follow("/api/v1/configmaps", self._configurations, "labelSelector", COMPONENT)
            )
            group.create_task(self._work())

    async def _follow(self, path: str, by_uid: dict, parameter: str, selector: str) -> None:  # type: ignore[type-arg]
        def changed(item: Json) -> None:
            by_uid[item["metadata"]["uid"]] = item
            self._changed.set()

        def gone(item: Json) -> None:
            by_uid.pop(item["metadata"]["uid"], None)
            self._changed.set()

        await follow(self._api, path, changed, gone, self.sources.source(), **{parameter: selector})

    def node_changed(self, item: Json) -> None:
        """Record a Node that was added or changed."""
        name, nodes = item["metadata"]["name"], self._nodes
        if name not in nodes or _node_facts(nodes[name]) != _node_facts(item):
            self._changed.set()
        nodes[name] = item

    def node_gone(self, item: Json) -> None:
        """Forget a Node that was deleted."""
        self._nodes.pop(item["metadata"]["name"], None)

    @property
    def _is_ready(self) -> bool:
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in self._schedulers.values()
            if "deletionTimestamp" not in pod["metadata"]
            for condition in (pod.get("status") or {}).get("conditions") or []
        )

    def _configuration(self, key: str) -> Json:
        """Return a file of HAMi's ConfigMaps; empty if there is none."""
        texts = (item.get("data", {}).get(key) for item in self._configurations.values())
        return yaml.safe_load(next(filter(None, texts), "")) or {}

    def _policies(self) -> tuple[str, str]:
        """Return the policies for nodes and for GPUs in the flags of HAMi's scheduler."""
        flags = [
            word
            for pod in self._schedulers.values()
            for container in pod["spec"]["containers"]
            for word in container.get("command") or []
        ]
        flag_values = {name: value for name, _, value in (flag.partition("=") for flag in flags)}
        return (
            flag_values.get("--node-scheduler-policy", "binpack"),
            flag_values.get("--gpu-scheduler-policy", "spread"),
        )

    async def _work(self) -> None:
        await self.sources.complete.wait()
        runner = web.AppRunner(self._application(), access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context())
            await site.start()
            port = runner.addresses[0][1]
            registered: bool | None = None
            while True:
                self._changed.clear()
                try:
                    if registered is not self._is_ready:
                        await self._register(port if self._is_ready else None)
                        registered = self._is_ready
                    if registered:
                        await self._place_all()
                except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
                    log.warning("hami: %s", error or type(error).__name__)
                    registered = None
                    await asyncio.sleep(RETRY)
                    continue
                await self._changed.wait()
        finally:
            await runner.cleanup()

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(str(self._access.certificate), str(self._access.key))
        return context

    async def _register(self, port: int | None) -> None:
        """Create the webhook's configuration, or delete it without a port."""
        with suppress(ApiError):
            await self._api.request("DELETE", f"{CONFIGURATIONS}/{WEBHOOK}")
        if port is None:
            return
        selector = {
            "matchExpressions": [{"key": hami.IGNORED, "operator": "NotIn", "values": ["ignore"]}]
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": WEBHOOK},
            "webhooks": [
                {
                    "name": "vgpu.hami.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "timeoutSeconds": 10,
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{port}/webhook",
                        "caBundle": base64.b64encode(self._access.ca.read_bytes()).decode(),
                    },
                    "namespaceSelector": selector,
                    "objectSelector": selector,
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["pods"],
                        }
                    ],
                }
            ],
        }
        await self._api.request("POST", CONFIGURATIONS, body)

    def _application(self) -> web.Application:
        async def review(request: web.Request) -> web.Response:
            question = (await request.json())["request"]
            response: Json = {"uid": question["uid"], "allowed": True}
            pod, namespace = question["object"], question["namespace"]
            try:
                runtime_class = self._configuration("device-config.yaml")
                admitted = hami.admit(
                    pod,
                    (runtime_class.get("nvidia") or {}).get("runtimeClassName") or "",
                    await self._quota(namespace),
                )
                patch = [{"op": "replace", "path": "/spec", "value": admitted["spec"]}]
                response |= {
                    "patchType": "JSONPatch",
                    "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
                }
            except hami.Denied as refused:
                response |= {"allowed": False, "status": {"code": 403, "message": str(refused)}}
            return web.json_response(
                {
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "response": response,
                }
            )

        application = web.Application(client_max_size=4 * 1024**2)
        application.router.add_post("/webhook", review)
        return application

    async def _quota(self, namespace: str) -> hami.Quota:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        quotas, _ = await self._api.list(path)
        return hami.quota_of(namespace, quotas, self._pods.values())

    async def _place_all(self) -> None:
        waiting = [
            pod
            for pod in self._pods.values()
            if not pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
            and not pod["spec"].get("schedulingGates")
        ]
        for pod in sorted(waiting, key=lambda item: item["metadata"]["creationTimestamp"]):
            with suppress(ApiError):  # The pod was deleted, so it needs no node.
                await self._place(pod)

    async def _place(self, pod: Json) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        quota = await self._quota(meta["namespace"])
        placed = [
            placed_pod for placed_pod in self._pods.values() if placed_pod["spec"].get("nodeName")
        ]
        placement = hami.place(list(self._nodes.values()), pod, placed, quota, self._policies())
        if not placement.node:
            await self._tell(pod, path, placement)
            return
        notes = {
            hami.ASSIGNED_NODE: placement.node,
            hami.ALLOCATED: hami.encode(placement.shares),
            hami.PHASE: "success",
        }
        response = await self._api.request(
            "PATCH", path, {"metadata": {"annotations": notes}}, MERGE
        )
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
        }
        await self._api.request("POST", f"{path}/binding", binding)
        response["spec"]["nodeName"] = placement.node
        self._pods[meta["uid"]] = response

    async def _tell(self, pod: Json, path: str, placement: hami.Placement) -> None:
        """Write why a pod waits, once for each cause: Events, and a condition of the pod."""
        message, uid = hami.unschedulable_message(placement), pod["metadata"]["uid"]
        if self._told.get(uid) == message:
            return
        self._told[uid] = message
        for text in hami.filtering_events(placement):
            await self._event(pod, "FilteringFailed", text)
        await self._event(pod, "FailedScheduling", message)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        kind = "application/strategic-merge-patch+json"
        status = {"status": {"conditions": [condition]}}
        await self._api.request("PATCH", f"{path}/status", status, kind)

    async def _event(self, pod: Json, reason: str, message: str) -> None:
        path, event = events.of_scheduler(pod, hami.SCHEDULER, reason, message)
        await self._api.request("POST", path, event)


def hami_pods() -> str:
    """Return the field selector of pods that HAMi's scheduler places."""
    return f"spec.schedulerName={hami.SCHEDULER}"


def _node_facts(node: Json) -> Json:
    """Return what decides about a Node whether pods fit."""
    notes = node["metadata"].get("annotations") or {}
    return {
        "labels": node["metadata"].get("labels"),
        "spec": node.get("spec"),
        "gpus": [notes.get(hami.REGISTERED), notes.get(hami.CORDONED)],
    }
