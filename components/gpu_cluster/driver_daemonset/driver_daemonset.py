"""Program that waits until the driver's DaemonSets are ready, and reports why pods are not."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes.causes.cause import Cause
from gpu_cluster.nodes.causes.cures import LOADED
from gpu_cluster.nodes.causes.offers import is_ready
from gpu_cluster.nodes.causes.pod import cause_of
from gpu_cluster.nodes.causes.read import explained, refused_daemons
from gpu_cluster.program import main
from gpu_rules.faults import Fault

INTERVAL = 0.5
TOLD = 10.0
"""Seconds between two progress messages."""
EXPLAINED = 10
"""Maximum number of pods that are explained; other pods are only counted."""


@dataclass(frozen=True, kw_only=True)
class InstallersRequest:
    """Driver installers to wait for.

    Attributes:
        namespace: Namespace of the DaemonSets.
        daemon_sets: Names of the DaemonSets.
        timeout_seconds: Seconds until all of their pods must be ready.
    """

    context: str
    namespace: str
    daemon_sets: tuple[str, ...]
    timeout_seconds: int


async def _list_pods(client: Client, item: Json) -> list[Json]:
    selector = ",".join(f"{k}={v}" for k, v in item["spec"]["selector"]["matchLabels"].items())
    url = f"namespaces/{item['metadata']['namespace']}/pods"
    return await client.list(url, labelSelector=selector)


async def wait(installers: InstallersRequest) -> Json:
    """Wait until every pod of the DaemonSets is ready.

    Raises:
        ClusterError: The time limit has passed, or a pod reports that a driver is already loaded.
            The error lists the first pods that are not ready, with node and cause.
    """
    deadline, last_report = time.monotonic() + installers.timeout_seconds, time.monotonic()
    async with connect(installers.context) as client:
        while True:
            items = [
                await client.request(
                    "GET",
                    f"namespaces/{installers.namespace}/daemonsets/{name}",
                    base="/apis/apps",
                )
                for name in installers.daemon_sets
            ]
            late = [item for item in items if not _is_daemon_set_ready(item)]
            if not late:
                return {"ready": sum(item["status"]["numberReady"] for item in items)}
            listed = await gather(lambda item: _list_pods(client, item), late)
            pods = [pod for of_one in listed for pod in of_one if not is_ready(pod)]
            loaded = any(LOADED in str(cause_of(pod)) for pod in pods)
            if loaded or time.monotonic() > deadline:
                raise ClusterError(
                    *_explain_late(late, await causes(client, installers.namespace, pods))
                )
            if time.monotonic() - last_report > TOLD:
                last_report = time.monotonic()
                for place, cause in await causes(client, installers.namespace, pods):
                    print(f"{place}: waits: {cause}", file=sys.stderr)
            await asyncio.sleep(INTERVAL)


def _is_daemon_set_ready(item: Json) -> bool:
    status = item.get("status") or {}
    desired: int = status.get("desiredNumberScheduled", 0)
    generation: int = status.get("observedGeneration", 0)
    counts = (status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
    return generation == item["metadata"]["generation"] and desired > 0 and set(counts) == {desired}


async def causes(client: Client, namespace: str, pods: list[Json]) -> list[tuple[str, Cause]]:
    """Return why pods are not ready, each cause with its node, from status, events and logs.

    If there are no pods, return why DaemonSets of the namespace can't create pods.
    """
    if not pods:
        return [
            (f"namespace {namespace}", daemon_cause)
            for daemon_cause in await refused_daemons(client, namespace)
        ]
    explanations = await gather(lambda pod: explained(client, pod), pods[:EXPLAINED])
    nodes = [f"node {pod['spec'].get('nodeName') or 'none'}" for pod in pods]
    return [(node, cause) for node, cause in zip(nodes, explanations, strict=False) if cause]


def _explain_late(late: list[Json], explanations: list[tuple[str, Cause]]) -> Iterator[Fault]:
    for place, cause in sorted(set(explanations), key=str):
        yield Fault(place, cause.text, "the driver installed", cause.cure or "see the pod's log")
    for item in late:
        status, metadata = item.get("status") or {}, item["metadata"]
        ready, wanted = status.get("numberReady", 0), status.get("desiredNumberScheduled", 0)
        yield Fault(
            f"DaemonSet {metadata['namespace']}/{metadata['name']}",
            f"{ready} of {wanted} pods ready",
            "a ready pod on each node of the pool",
            "see `kubectl describe` of this DaemonSet",
        )


if __name__ == "__main__":
    main(InstallersRequest, {"wait": wait})
