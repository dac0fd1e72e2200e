"""Ends validation pods: each container with the devices that it was given, and with its own log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from lab.simulator import logs, marks
from lab.simulator.api import MERGE, Api, ApiError, Json
from lab.simulator.controller import allocation, devices, judge
from lab.simulator.controller.allocation import Given
from lab.simulator.controller.devices import CORE, Device

#: Seconds that kwok has to serve a pod's logs before the pod ends.
LOG_SECONDS = 10.0
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
ENDED = ("Succeeded", "Failed")


class Validations:
    """The kubelets' device managers, and the kernels that would run."""

    def __init__(self, api: Api, log_folder: Path, again: Callable[[str], None]) -> None:
        """``again``: asks for more work on a node."""
        self._api = api
        self._log_folder = log_folder
        self._again = again
        #: What pods were given, by node and by the pod's uid.
        self._given: dict[str, dict[str, Given]] = {}
        self._since: dict[str, float] = {}

    async def work(
        self, node: judge.Node, pod: judge.Pod, found: list[Device], problem: str | None
    ) -> None:
        """Gives a running pod its devices, and ends it when its kernels have run.

        Args:
            node: the pod's node.
            pod: a validation pod.
            found: devices that the plugin registered there.
            problem: why no kernel can run; None where it can.
        """
        if any("terminated" in each["state"] for each in pod.object["status"]["containerStatuses"]):
            return  # its kernels have run; what goes on is a container without a device
        try:
            given = await self._devices(node, pod, found)
        except allocation.NotEnough as refused:
            status = {"phase": "Failed", "reason": allocation.REASON, "message": str(refused)}
            await self._set_status(pod, status)
            return
        since = self._since.setdefault(pod.uid, time.monotonic())
        left = node.faults.slow - (time.monotonic() - since)
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._again, node.name)
            return
        self._since.pop(pod.uid)
        ran = {name: judge.kernel_log(node, problem, each) for name, each in given.items()}
        await self._give_logs(pod, {name: self._file(given[name], ran[name]) for name in given})
        await self._set_status(pod, ended(pod.object, ran))

    async def _devices(self, node: judge.Node, pod: judge.Pod, found: list[Device]) -> Given:
        if pod.object["spec"].get("resourceClaims"):
            claims = await self._claims(pod)
            whole = devices.whole(node.name, range(node.gpus))
            return allocation.of_claims(node.name, pod.object, claims, whole)
        found = [*found, *devices.whole(node.name, range(node.faults.unhealthy, node.gpus), CORE)]
        answer = await self._api.request(
            "GET",
            "/api/v1/pods",
            None,
            "application/json",
            fieldSelector=f"spec.nodeName={node.name}",
        )
        living = [
            each
            for each in sorted(answer["items"], key=lambda i: i["metadata"]["creationTimestamp"])
            if (each.get("status") or {}).get("phase") not in ENDED
        ]
        known = self._given.get(node.name, {})
        given = {uid: known[uid] for each in living if (uid := each["metadata"]["uid"]) in known}
        self._given[node.name] = given
        resources = {each.resource for each in found}
        # Who came first has its devices first: the pod itself comes last among those without any.
        rest = [i for i in living if i["metadata"]["uid"] not in {*given, pod.uid}]
        for item in [each for each in rest if marks.VALIDATION not in _labels(each)]:
            given[item["metadata"]["uid"]] = self._admit(found, given, item, resources)
        if pod.uid not in given:
            mine = self._admit(found, given, pod.object, resources)
            twice = node.faults.one_device_twice
            given[pod.uid] = allocation.one_twice(mine) if twice else mine
        return given[pod.uid]

    def _admit(
        self, found: list[Device], given: dict[str, Given], pod: Json, resources: set[str]
    ) -> Given:
        taken = [one.id for each in given.values() for many in each.values() for one in many]
        return allocation.allocate(found, taken, allocation.wants(pod, resources))

    async def _claims(self, pod: judge.Pod) -> dict[str, Json]:
        found = {}
        for each in pod.object["status"].get("resourceClaimStatuses") or []:
            path = CLAIMS.format(namespace=pod.namespace, name=each["resourceClaimName"])
            found[each["name"]] = await self._api.request("GET", path)
        return found

    def _file(self, given: tuple[Device, ...], ran: str) -> Path:
        name = "-".join(each.id.replace("::", "-") for each in given[:2])
        path = self._log_folder / f"{name}-{len(given)}-{ran}.log"
        logs.write_file(path, (*devices.listing(given), *logs.RUNS[ran]))
        return path

    async def _give_logs(self, pod: judge.Pod, files: dict[str, Path]) -> None:
        """Gives a pod its logs, and sees that they are served before the pod may end."""
        if not files:
            return
        path = f"/apis/kwok.x-k8s.io/v1alpha1/namespaces/{pod.namespace}/logs"
        try:
            await self._api.request("POST", path, logs.pod_logs(pod.object, files))
        except ApiError as error:
            if error.code != 409:
                raise
        container = next(reversed(files))
        lines = files[container].read_text().splitlines()
        wanted = [line.split(" ", 3)[3] for line in lines]
        async with asyncio.timeout(LOG_SECONDS):
            while True:
                found = await self._api.request("GET", f"{pod.path}/log", container=container)
                if str(found).splitlines() == wanted:
                    return
                await asyncio.sleep(0.05)

    async def _set_status(self, pod: judge.Pod, status: Json) -> None:
        await self._api.request("PATCH", f"{pod.path}/status", {"status": status}, MERGE)


def _labels(pod: Json) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def ended(pod: Json, ran: dict[str, str]) -> Json:
    """The status of a pod whose containers have run, by the kind of their logs.

    A container without a device, such as an injected sidecar, goes on, and so its pod does not end
    (kubernetes v1.34 pkg/kubelet/kubelet_pods.go, getPhase).
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    codes = {name: int(kind == logs.FAILED) for name, kind in ran.items()}
    statuses = [
        {
            **each,
            "ready": False,
            "started": False,
            "state": {
                "terminated": {
                    "exitCode": codes[each["name"]],
                    "reason": "Error" if codes[each["name"]] else "Completed",
                    "startedAt": each["state"]["running"]["startedAt"],
                    "finishedAt": now,
                }
            },
        }
        if each["name"] in codes
        else each
        for each in pod["status"]["containerStatuses"]
    ]
    if any(each["name"] not in codes for each in statuses):
        phase = "Running"
    else:
        phase = "Failed" if any(codes.values()) else "Succeeded"
    condition = {"status": "False", "lastTransitionTime": now, "reason": "PodCompleted"}
    conditions = [
        {**each, **condition} if each["type"] in ("Ready", "ContainersReady") else each
        for each in pod["status"].get("conditions") or []
    ]
    return {"phase": phase, "conditions": conditions, "containerStatuses": statuses}
