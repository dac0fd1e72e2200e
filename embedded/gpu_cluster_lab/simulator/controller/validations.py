"""Simulate validation pods: end each container with a result and a log that fit its devices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gpu_cluster_lab.simulator import logs, marks
from gpu_cluster_lab.simulator.api import MERGE, Api, Json
from gpu_cluster_lab.simulator.controller import allocation, devices, hami, judge
from gpu_cluster_lab.simulator.controller.allocation import Given
from gpu_cluster_lab.simulator.controller.devices import CORE, Device

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
ENDED = ("Succeeded", "Failed")


class Validations:
    """Simulate the kubelets' device managers and the CUDA tests of validation pods."""

    def __init__(self, api: Api, log_folder: Path, again: Callable[[str], None]) -> None:
        """Start without any allocated devices.

        Args:
            api: Client of the API server.
            log_folder: Folder of the simulated logs.
            again: Function that adds a node to the queue again.
        """
        self._api = api
        self._log_folder = log_folder
        self._again = again
        #: Allocated devices of pods, by node and pod UID.
        self._given: dict[str, dict[str, Given]] = {}
        self._since: dict[str, float] = {}

    async def work(
        self, node: judge.Node, pod: judge.Pod, offered: list[Device], problem: str | None
    ) -> None:
        """Allocate devices to a running pod, and end the pod after the duration of its test.

        Args:
            node: The pod's node.
            pod: A validation pod.
            offered: Devices that the device plugin has registered on the node.
            problem: Reason why no CUDA kernel can run on the node, or None.
        """
        statuses = pod.object["status"]["containerStatuses"]
        if any("terminated" in status["state"] for status in statuses):
            # The tests in this pod have already ended. Only containers without a device still run.
            return
        try:
            by_container = await self._devices(node, pod, offered)
        except allocation.NotEnough as refused:
            status = {"phase": "Failed", "reason": allocation.REASON, "message": str(refused)}
            await self._set_status(pod, status)
            return
        since = self._since.setdefault(pod.uid, time.monotonic())
        seconds_left = node.faults.slow - (time.monotonic() - since)
        if seconds_left > 0:
            asyncio.get_running_loop().call_later(seconds_left, self._again, node.name)
            return
        self._since.pop(pod.uid)
        is_test = marks.TEST in (pod.object["metadata"].get("annotations") or {})
        # A kernel of a validation container runs only on the first visible device, CUDA's default.
        # A performance test uses all devices.
        used = {
            name: container_devices if is_test else container_devices[:1]
            for name, container_devices in by_container.items()
        }
        ran = {
            name: judge.kernel_log(node, problem, container_devices)
            for name, container_devices in used.items()
        }
        figure, messages = node.faults.figure if is_test else None, {}
        containers = pod.object["spec"]["containers"]
        commands = {each["name"]: each.get("command") or () for each in containers}
        for name in by_container:
            # A performance test that failed prints no measured value.
            end = () if figure is None or ran[name] == logs.FAILED else logs.of_test(figure)
            lines = (*devices.listing(by_container[name]), *logs.RUNS[ran[name]], *end)
            logs.write(self._log_folder, pod.namespace, pod.name, name, lines)
            messages[name] = logs.termination_message(commands[name], lines, len(containers))
        await self._set_status(pod, ended(pod.object, ran, messages))

    async def _devices(self, node: judge.Node, pod: judge.Pod, offered: list[Device]) -> Given:
        if pod.object["spec"].get("resourceClaims"):
            claims = await self._claims(pod)
            whole = devices.whole(node.name, range(node.gpus))
            return allocation.of_claims(node.name, pod.object, claims, whole)
        if text := (pod.object["metadata"].get("annotations") or {}).get(hami.ALLOCATED, ""):
            return allocation.of_hami(
                pod.object, hami.decode(text), devices.whole(node.name, range(node.gpus))
            )
        cores = devices.whole(node.name, range(node.faults.unhealthy, node.gpus), CORE)
        offered = [*offered, *cores]
        response = await self._api.request(
            "GET",
            "/api/v1/pods",
            None,
            "application/json",
            fieldSelector=f"spec.nodeName={node.name}",
        )
        living = [
            item
            for item in sorted(response["items"], key=lambda i: i["metadata"]["creationTimestamp"])
            if (item.get("status") or {}).get("phase") not in ENDED
        ]
        known_devices = self._given.get(node.name, {})
        by_uid = {
            uid: known_devices[uid]
            for pod in living
            if (uid := pod["metadata"]["uid"]) in known_devices
        }
        self._given[node.name] = by_uid
        resources = {device.resource for device in offered}
        # Pods get their devices in the order of their creation. The current pod gets its devices
        # after all other pods.
        new_pods = [i for i in living if i["metadata"]["uid"] not in {*by_uid, pod.uid}]
        for item in [item for item in new_pods if marks.VALIDATION not in _pod_labels(item)]:
            by_uid[item["metadata"]["uid"]] = self._admit(offered, by_uid, item, resources)
        if pod.uid not in by_uid:
            by_uid[pod.uid] = self._admit(offered, by_uid, pod.object, resources)
        return by_uid[pod.uid]

    def _admit(
        self, offered: list[Device], by_uid: dict[str, Given], pod: Json, resources: set[str]
    ) -> Given:
        used_ids = [
            device.id
            for pod_devices in by_uid.values()
            for many in pod_devices.values()
            for device in many
        ]
        return allocation.allocate(offered, used_ids, allocation.wants(pod, resources))

    async def _claims(self, pod: judge.Pod) -> dict[str, Json]:
        claims = {}
        for status in pod.object["status"].get("resourceClaimStatuses") or []:
            path = CLAIMS.format(namespace=pod.namespace, name=status["resourceClaimName"])
            claims[status["name"]] = await self._api.request("GET", path)
        return claims

    async def _set_status(self, pod: judge.Pod, status: Json) -> None:
        await self._api.request("PATCH", f"{pod.path}/status", {"status": status}, MERGE)


def _pod_labels(pod: Json) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def ended(pod: Json, ran: dict[str, str], messages: dict[str, str]) -> Json:
    """Return the status of a pod whose tests have ended, by the result of each container.

    A container without a device, such as an injected sidecar, keeps running, so that its pod stays
    in phase Running (kubernetes v1.34 pkg/kubelet/kubelet_pods.go, getPhase).
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    codes = {name: int(kind == logs.FAILED) for name, kind in ran.items()}
    statuses = [
        {
            **status,
            "ready": False,
            "started": False,
            "state": {
                "terminated": {
                    "exitCode": codes[status["name"]],
                    "reason": "Error" if codes[status["name"]] else "Completed",
                    "message": messages[status["name"]],
                    "startedAt": status["state"]["running"]["startedAt"],
                    "finishedAt": now,
                }
            },
        }
        if status["name"] in codes
        else status
        for status in pod["status"]["containerStatuses"]
    ]
    if any(status["name"] not in codes for status in statuses):
        phase = "Running"
    else:
        phase = "Failed" if any(codes.values()) else "Succeeded"
    condition = {"status": "False", "lastTransitionTime": now, "reason": "PodCompleted"}
    conditions = [
        {**present, **condition} if present["type"] in ("Ready", "ContainersReady") else present
        for present in pod["status"].get("conditions") or []
    ]
    return {"phase": phase, "conditions": conditions, "containerStatuses": statuses}
