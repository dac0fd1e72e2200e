"""Counts a pool: N of N declared GPUs on each node, and a kernel that ran on all of them.

A validation Job is Indexed, one pod a node, each pod asking for all GPUs of one node and held by
the scheduling gate `GATE`. The count pins pod *i* to node *i* (the API server lets a gated pod's
nodeSelector be set, Kubernetes 1.27 "Pod Scheduling Readiness"), opens the gate, waits, reads each
log, compares each node's allocatable with what is declared, and removes the finished pods, so that
none holds a GPU. The Job itself stays, marked by the annotation `VALIDATED`.

Input: ``context``, ``pool``, ``nodes`` or ``selector`` with ``count``, ``gpus`` (per node),
``resources`` (what each node offers, by name), ``namespace``, ``job``, ``timeoutSeconds``,
``manager``.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from components.api import APPLY, JSON_PATCH, Client, ClusterError, Json, Refused, connect, gather
from components.nodes.inspect import GPU, pool_members, simulated, with_devices
from components.nodes.inspect import gpus as offered
from components.program import main

GATE = "gpu-cluster/pin"
VALIDATED = "gpu-cluster/validated"
INDEX = "batch.kubernetes.io/job-completion-index"
PASSED = "Test PASSED"

#: Seconds between two looks at the pods.
INTERVAL = 0.5

#: Nodes whose pods are looked at for a cause when the count fails; the others are named only.
EXPLAINED = 10


@dataclass
class Outcome:
    """What became of one node's pod; ``problem`` is empty when its kernel ran and passed."""

    node: str
    pod: str = ""
    finished: bool = False
    problem: str = ""


def verdict(pod: Json, log: str) -> str:
    """Why a finished validation pod does not count; empty when it does.

    The CUDA sample ``vectorAdd`` prints ``Test PASSED`` when each element of its sum is right
    (NVIDIA/cuda-samples, Samples/0_Introduction/vectorAdd).
    """
    last = log.strip().splitlines()[-1] if log.strip() else "no output"
    if pod["status"]["phase"] != "Succeeded":
        for status in pod["status"].get("containerStatuses", []):
            ended = status.get("state", {}).get("terminated")
            if ended:
                return f"the validation pod ended with exit code {ended['exitCode']}: {last}"
        reason = pod["status"].get("reason") or pod["status"]["phase"]
        return f"the validation pod ended as {reason}: {pod['status'].get('message') or last}"
    if PASSED not in [line.strip() for line in log.splitlines()]:
        return f"the validation pod's log has no line {PASSED!r}; its last line: {last}"
    return ""


def shortfall(node: Json, gpus: int, resources: dict[str, int]) -> str:
    """How what a node offers differs from what is declared; empty when they agree.

    ``resources``: the count of each resource; of ``nvidia.com/gpu`` it is ``gpus``, unless the
    GPUs are shared or divided.
    """
    differences = (_difference(node, name, count, gpus) for name, count in resources.items())
    return "; ".join(filter(None, differences))


def _difference(node: Json, resource: str, declared: int, gpus: int) -> str:
    allocatable = offered(node, resource=resource)
    capacity = offered(node, "capacity", resource)
    if allocatable == declared == capacity:
        return ""
    what = "GPUs" if (resource, declared) == (GPU, gpus) else resource
    found = f"{allocatable} of {declared} {what} allocatable"
    if capacity > allocatable:
        return f"{found} (capacity {capacity}: {capacity - allocatable} unhealthy or withdrawn)"
    return found


class _Count:
    def __init__(self, client: Client, document: Json, members: list[Json]) -> None:
        self.client = client
        self.document = document
        self.pods_url = f"namespaces/{document['namespace']}/pods"
        self.job_url = f"namespaces/{document['namespace']}/jobs/{document['job']}"
        self.outcomes = [Outcome(node["metadata"]["name"]) for node in members]
        self.hostnames = [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in members]

    async def pods(self) -> list[Json]:
        selector = f"batch.kubernetes.io/job-name={self.document['job']}"
        return await self.client.list(self.pods_url, labelSelector=selector)

    async def job(self) -> Json:
        job: Json = await self.client.request("GET", self.job_url, base="/apis/batch")
        return job

    async def pin(self, pod: Json) -> None:
        """Ties a gated pod to its node and opens the gate, in one patch."""
        index = int(pod["metadata"]["annotations"][INDEX])
        patch: list[Json] = [
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
            {"op": "remove", "path": "/spec/schedulingGates"},
            {
                "op": "add",
                "path": "/spec/nodeSelector",
                "value": {"kubernetes.io/hostname": self.hostnames[index]},
            },
        ]
        try:
            await self.client.request(
                "PATCH",
                f"{self.pods_url}/{pod['metadata']['name']}",
                body=patch,
                content_type=JSON_PATCH,
            )
        except Refused as error:
            if error.code not in (404, 409, 422):  # gone or changed: the next look decides
                raise

    async def judge(self, pod: Json) -> None:
        outcome = self.outcomes[int(pod["metadata"]["annotations"][INDEX])]
        name = pod["metadata"]["name"]
        try:
            log = await self.client.request("GET", f"{self.pods_url}/{name}/log", parse=False)
        except Refused as error:
            log = f"(its log can't be read: {error})"
        outcome.pod, outcome.finished, outcome.problem = name, True, verdict(pod, log)

    async def look(self) -> bool:
        """Pins what is gated, judges what has finished; true when nothing is left to wait for."""
        pods = [pod for pod in await self.pods() if not pod["metadata"].get("deletionTimestamp")]
        by_index = {int(pod["metadata"]["annotations"][INDEX]): pod for pod in pods}
        await gather(self.pin, [pod for pod in pods if pod["spec"].get("schedulingGates")])
        ended = [
            pod
            for index, pod in by_index.items()
            if pod["status"]["phase"] in ("Succeeded", "Failed")
            and not self.outcomes[index].finished
        ]
        await gather(self.judge, ended)
        return all(outcome.finished for outcome in self.outcomes)

    async def wait(self) -> None:
        deadline = time.monotonic() + self.document["timeoutSeconds"]
        while not await self.look() and time.monotonic() < deadline:
            await asyncio.sleep(INTERVAL)

    async def cause(self, node: str) -> str:
        """What the pods of a node say of themselves: messages of containers that don't run."""
        found = []
        for pod in await self.client.list("pods", fieldSelector=f"spec.nodeName={node}"):
            for status in pod["status"].get("containerStatuses", []):
                state = status.get("state", {})
                message = (state.get("waiting") or {}).get("message")
                last = (status.get("lastState", {}).get("terminated") or {}).get("message")
                if last or message:
                    found.append(f"{pod['metadata']['name']}: {last or message}")
        return "; ".join(sorted(set(found)))

    async def clean(self) -> None:
        """Removes the finished pods, then marks the Job: from here on it holds nothing."""

        async def remove(outcome: Outcome) -> None:
            try:
                await self.client.request("DELETE", f"{self.pods_url}/{outcome.pod}")
            except Refused as error:
                if error.code != 404:
                    raise

        await self.completed()
        await gather(remove, [outcome for outcome in self.outcomes if outcome.pod])
        job = await self.job()
        mark = {"name": self.document["job"], "uid": job["metadata"]["uid"]}
        await self.client.request(
            "PATCH",
            self.job_url,
            base="/apis/batch",
            body={
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {**mark, "annotations": {VALIDATED: str(len(self.outcomes))}},
            },
            content_type=APPLY,
            params={"fieldManager": f"{self.document['manager']}-count", "force": "true"},
        )

    async def completed(self) -> None:
        """Waits until the Job has counted its pods, or it would start removed ones again."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = (await self.job()).get("status", {})
            if any(
                c["type"] == "Complete" and c["status"] == "True"
                for c in status.get("conditions", [])
            ):
                return
            await asyncio.sleep(INTERVAL)
        raise ClusterError(
            f"job {self.document['job']}: not complete 60 s after its pods; wanted: "
            "Complete; cure: check the cluster's controller manager"
        )


async def _explain(count: _Count, short: dict[str, str], declared: int) -> str:
    lines: list[str] = []
    for outcome in count.outcomes:
        node = outcome.node
        problem = short.get(node) or outcome.problem
        if not problem and not outcome.finished:
            problem = "its validation pod did not finish in time"
        if not problem:
            continue
        cause = await count.cause(node) if len(lines) < EXPLAINED else ""
        lines.append(f"node {node}: {problem}" + (f" ({cause})" if cause else ""))
    passed = len(count.outcomes) - len(lines)
    total = len(count.outcomes)
    lines.append(
        f"pool {count.document['pool']}: {passed * declared} of {total * declared} GPUs validated; "
        f"wanted: all {declared} GPUs of each of {total} nodes, a kernel that ran and {PASSED!r}; "
        "cure: mend the nodes named above, then run again"
    )
    return "\n".join(lines)


async def count(document: Json) -> Json:
    """Validates the pool; gives back each node's declared and validated GPUs.

    Raises:
        ClusterError: a node that falls short, by name, with what its pods say of the cause.
    """
    declared: int = document["gpus"]
    async with connect(document["context"]) as client:
        members = pool_members(await client.list("nodes"), document)
        counting = _Count(client, document, members)
        already = (await counting.job())["metadata"].get("annotations", {}).get(VALIDATED)
        if not already:
            await counting.wait()
        nodes = await with_devices(client, await client.list("nodes"), [document])
        members = pool_members(nodes, document)
        short = {
            node["metadata"]["name"]: shortfall(node, declared, document["resources"])
            for node in members
        }
        failed = [o for o in counting.outcomes if o.problem or not (o.finished or already)]
        if any(short.values()) or failed:
            raise ClusterError(await _explain(counting, short, declared))
        if not already:
            await counting.clean()
    return {
        "pool": document["pool"],
        "resources": document["resources"],
        "nodes": [
            {
                "name": node["metadata"]["name"],
                "declared": declared,
                "validated": declared,
                "simulated": simulated(node),
            }
            for node in members
        ],
    }


if __name__ == "__main__":
    main({"count": count})
