"""Program that waits until DaemonSets run on all nodes, and reports why a pod does not run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from components.kubernetes.api import Client, ClusterError, Json, connect
from components.program import main
from policies.faults import Fault

INTERVAL = 0.5
# Message of an installer if the host has already loaded another driver (document 003, "Error 1").
LOADED = "appears to already be loaded"
REMOVE = (
    "remove the host's driver (nvidia-uninstall), reboot it, or declare driver.source: preinstalled"
)


@dataclass(frozen=True, kw_only=True)
class InstallersRequest:
    """Driver installers to wait for.

    Attributes:
        context: Context of the kubeconfig.
        namespace: Namespace of the DaemonSets.
        daemon_sets: Names of the DaemonSets.
        timeout_seconds: Seconds until all of their pods must be ready.
    """

    context: str
    namespace: str
    daemon_sets: tuple[str, ...]
    timeout_seconds: int


def messages(pod: Json) -> list[str]:
    """Return the messages of a pod's containers that don't run."""
    lines = []
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in pod["status"].get(kind, []):
            for state in (status.get("state", {}), status.get("lastState", {})):
                for container in state.values():
                    if container.get("message") and container.get("reason") != "Completed":
                        lines.append(container["message"].strip().splitlines()[-1])
    return lines


async def _pods(client: Client, item: Json) -> list[Json]:
    selector = ",".join(f"{k}={v}" for k, v in item["spec"]["selector"]["matchLabels"].items())
    url = f"namespaces/{item['metadata']['namespace']}/pods"
    return await client.list(url, labelSelector=selector)


async def wait(wanted: InstallersRequest) -> Json:
    """Wait until every pod of the DaemonSets is ready.

    Raises:
        ClusterError: The time limit has passed, or a pod reports that a driver is already loaded.
            The error has the messages of the pods by node.
    """
    deadline = time.monotonic() + wanted.timeout_seconds
    async with connect(wanted.context) as client:
        while True:
            items = [
                await client.request(
                    "GET",
                    f"namespaces/{wanted.namespace}/daemonsets/{name}",
                    base="/apis/apps",
                )
                for name in wanted.daemon_sets
            ]
            late = [item for item in items if not _ready(item)]
            if not late:
                return {"ready": sum(item["status"]["numberReady"] for item in items)}
            problems = []
            for item in late:
                for pod in await _pods(client, item):
                    problems += [(pod["spec"].get("nodeName", "?"), m) for m in messages(pod)]
            ended = time.monotonic() > deadline
            if ended or any(LOADED in message for _, message in problems):
                raise ClusterError(*_explain(late, problems))
            await asyncio.sleep(INTERVAL)


def _ready(item: Json) -> bool:
    status = item.get("status") or {}
    wanted: int = status.get("desiredNumberScheduled", 0)
    seen: int = status.get("observedGeneration", 0)
    counts = (status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
    return seen == item["metadata"]["generation"] and wanted > 0 and set(counts) == {wanted}


def _explain(late: list[Json], problems: list[tuple[str, str]]) -> Iterator[Fault]:
    for node, message in sorted(set(problems)):
        cure = REMOVE if LOADED in message else "see the pod's log"
        yield Fault(f"node {node}", repr(message), "the driver installed", cure)
    for item in late:
        status, metadata = item.get("status") or {}, item["metadata"]
        ready, wanted = status.get("numberReady", 0), status.get("desiredNumberScheduled", 0)
        yield Fault(
            f"DaemonSet {metadata['namespace']}/{metadata['name']}",
            f"{ready} of {wanted} pods ready",
            "one on each of the pool's nodes",
            "`kubectl describe` it",
        )


if __name__ == "__main__":
    main(InstallersRequest, {"wait": wait})
