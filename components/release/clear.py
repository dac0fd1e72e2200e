"""Clears what stands in the way of a resource, for `components.release.clearing`.

That is what a killed run left, what another platform's release leaves for a moment, and a device
plugin that is no longer declared. And it refuses a namespace that isn't ours.

Each function gets the inputs of the resource that is about to be created or updated, and returns
what it removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from components.kubernetes.api import Client, ClusterError, Json, Refused, connect
from components.kubernetes.labels import LABELS
from components.kubernetes.managers import OWNER
from components.release import runtime_class
from components.release.helm_record import decode_release, secrets_of, settle
from components.release.inspect import ours
from policies.faults import Fault

#: Seconds to wait until the pods of another platform are gone: their grace period is 30.
OTHERS_GONE = 90
#: Seconds to wait until an object that was deleted is gone.
GONE = 60


@dataclass(frozen=True, kw_only=True)
class OwnServers:
    """This program's device plugins, which run beside the release's.

    Attributes:
        context: context of the kubeconfig.
        namespace: namespace of their DaemonSets.
        selector: label selector of their pods and of the release's.
        declared: names of the DaemonSets that stay.
        release: name of the release's DaemonSet.
    """

    context: str
    namespace: str
    selector: str
    declared: Collection[str]
    release: str


def same_values(recorded: Any, wanted: Any) -> bool:
    """Whether two sets of Helm values say the same: absent, null and empty are one."""
    if not recorded and not wanted:
        return True
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        return all(
            same_values(recorded.get(key), wanted.get(key)) for key in recorded.keys() | wanted
        )
    if isinstance(recorded, list) and isinstance(wanted, list):
        return len(recorded) == len(wanted) and all(map(same_values, recorded, wanted))
    return bool(recorded == wanted)


async def release(context: str, others: Collection[str], inputs: Json) -> list[str]:
    """Waits until no other platform serves GPUs, and removes a record that nobody knows.

    A record is Helm's, of an unfinished or unknown release with our chart and values. The
    RuntimeClass that the GPU Operator leaves becomes ours, where the release's pods name it.

    The objects stay: they carry Helm's ownership marks of the same release, so the install that
    follows takes them over.

    Args:
        context: context of the kubeconfig.
        others: label selectors of the other platforms' pods.
        inputs: inputs of the release.

    Raises:
        ClusterError: a release of that name that is not ours, or pods of another platform that
            stay.
    """
    name, namespace = inputs["name"], inputs["namespace"]
    async with connect(context) as client:
        await _others_gone(client, name, others)
        if runtime_class_name := (inputs.get("values") or {}).get("runtimeClassName"):
            await runtime_class.settle(client, runtime_class_name)
        records = await secrets_of(client, name, namespace)
        if not records:
            return []
        latest = decode_release(records[-1])
        if not same_values(latest.get("config"), inputs.get("values")):
            raise ClusterError(
                Fault(
                    f"release {namespace}/{name}",
                    "one that this stack did not make (other values)",
                    "the name free",
                    f"`helm uninstall -n {namespace} {name}`, or another namespace",
                )
            )
        urls = [f"namespaces/{namespace}/secrets/{r['metadata']['name']}" for r in records]
        for url in urls:
            await _delete(client, url, propagation="Background")
        for url in urls:
            await _gone(client, url)
    return [f"record of release {namespace}/{name}"]


async def upgrade(context: str, inputs: Json) -> list[str]:
    """Settles the record of a release that a killed run left unfinished: Helm refuses it."""
    name, namespace = inputs["name"], inputs["namespace"]
    async with connect(context) as client:
        status = await settle(client, name, namespace)
    return [f"{status} of release {namespace}/{name}"] if status else []


async def _gone(client: Client, url: str) -> None:
    """Waits until an object that was deleted is gone: a finalizer may keep it for a while.

    Raises:
        ClusterError: it is still there after `GONE` seconds.
    """
    deadline = time.monotonic() + GONE
    while present := await client.find(url):
        if time.monotonic() > deadline:
            finalizers = ", ".join(present["metadata"].get("finalizers", [])) or "none"
            raise ClusterError(
                Fault(
                    url,
                    f"still there {GONE} s after it was deleted; finalizers: {finalizers}",
                    "its name free",
                    "see who holds it by a finalizer, then run again",
                )
            )
        await asyncio.sleep(0.2)


async def _others_gone(client: Client, name: str, others: Collection[str]) -> None:
    """Waits for the last pods of another platform: two at once give the same GPU out twice."""
    await _own_servers_gone(client, others)

    async def left() -> list[str]:
        # Those of another's DaemonSet run on nodes of its own: the inspection has judged it.
        sets = await client.list("daemonsets", base="/apis/apps")
        spaces = ours(await client.list("namespaces"))
        living = {
            daemon_set["metadata"]["uid"]
            for daemon_set in sets
            if daemon_set["metadata"]["namespace"] not in spaces
            and OWNER not in (daemon_set["metadata"].get("annotations") or {})
        }
        return [
            _named(pod)
            for selector in others
            for pod in await client.list("pods", labelSelector=selector)
            if not living & _owners(pod)
        ]

    await _pods_gone(left, f"release {name}", "of another platform")


async def _pods_gone(left: Callable[[], Awaitable[list[str]]], subject: str, whose: str) -> None:
    """Waits until no pods are left."""
    deadline = time.monotonic() + OTHERS_GONE
    while pods := await left():
        if time.monotonic() > deadline:
            raise ClusterError(
                Fault(
                    subject,
                    f"{len(pods)} pods {whose}, first {pods[0]}",
                    f"none after {OTHERS_GONE} s",
                    "see what holds them (`kubectl get pod -o yaml`), then run again",
                )
            )
        await asyncio.sleep(0.5)


def _named(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _owners(pod: Json) -> set[str]:
    return {owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])}


def _owner_names(pod: Json) -> set[str]:
    return {owner["name"] for owner in pod["metadata"].get("ownerReferences", [])}


def _served(inputs: Json) -> set[str]:
    """Nodes of a DaemonSet of ours, which names each (`device_plugin.excluded_gpus`)."""
    if inputs.get("kind") != "DaemonSet":
        return set()
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = inputs["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][required]
    terms = affinity["nodeSelectorTerms"]
    return {name for term in terms for field in term["matchFields"] for name in field["values"]}


async def _own_servers_gone(client: Client, others: Collection[str]) -> None:
    """Removes this program's DaemonSets that serve beside another platform's release.

    Those for nodes on which GPUs are left out: the engine deletes them, too, but only after all
    that it makes.
    """
    pairs = [selector.split("=") for selector in others]
    for item in await client.list("daemonsets", base="/apis/apps"):
        metadata, labels = item["metadata"], item["spec"]["template"]["metadata"].get("labels", {})
        if LABELS.items() <= (metadata.get("labels") or {}).items() and any(
            labels.get(key) == value for key, value in pairs
        ):
            url = f"namespaces/{metadata['namespace']}/daemonsets/{metadata['name']}"
            await _delete(client, url, base="/apis/apps")


async def servers(own: OwnServers, inputs: Json) -> list[str]:
    """Ends this program's device plugins that are no longer declared, and waits for the release's.

    Two on one node would give the same GPU out twice. The engine deletes ours, too, but only after
    all that it makes. The release's go from nodes that they leave out; when one of them ends after
    ours has registered, the kubelet disconnects ours, and the node offers none until that restarts
    (kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go, runClient).

    Raises:
        ClusterError: pods that stay.
    """
    path, selector = f"namespaces/{own.namespace}", own.selector
    async with connect(own.context) as client:
        daemon_sets = await client.list(
            f"{path}/daemonsets",
            base="/apis/apps",
            labelSelector=f"app.kubernetes.io/managed-by=gpu-cluster,{selector}",
        )
        ended = [
            daemon_set["metadata"]
            for daemon_set in daemon_sets
            if daemon_set["metadata"]["name"] not in own.declared
        ]
        for daemon_set in ended:
            await _delete(client, f"{path}/daemonsets/{daemon_set['name']}", base="/apis/apps")
        owners = {daemon_set["uid"] for daemon_set in ended}

        async def left() -> list[str]:
            pods = await client.list(f"{path}/pods", labelSelector=selector)
            return [_named(pod) for pod in pods if owners & _owners(pod)]

        if owners:
            await _pods_gone(left, "device plugin", "that are no longer declared")
        if nodes := _served(inputs):

            async def leaving() -> list[str]:
                pods = await client.list(f"{path}/pods", labelSelector=selector)
                return [
                    _named(pod)
                    for pod in pods
                    if pod["spec"].get("nodeName") in nodes and own.release in _owner_names(pod)
                ]

            await _pods_gone(leaving, "device plugin", "of the release, on nodes that it leaves")
    return [f"DaemonSet {own.namespace}/{daemon_set['name']}" for daemon_set in ended]


async def await_deletions(context: str) -> None:
    """Waits until none of our namespaces is being deleted.

    A killed run leaves such a namespace. The engine would find it there and make objects in it,
    which the API server refuses.

    Raises:
        ClusterError: one that is still there after `GONE` seconds.
    """
    async with connect(context) as client:
        for space in await client.list("namespaces"):
            if ours([space]) and space["metadata"].get("deletionTimestamp"):
                await _gone(client, f"namespaces/{space['metadata']['name']}")


async def _delete(
    client: Client, url: str, base: str = "", propagation: str = "Foreground"
) -> None:
    try:
        await client.request("DELETE", url, base=base, body={"propagationPolicy": propagation})
    except Refused as error:
        if error.code != 404:
            raise


async def namespace(context: str, inputs: Json) -> list[str]:
    """Refuses to create a namespace that somebody else has; waits for one that is being deleted.

    Raises:
        ClusterError: there is one of that name, without our label.
    """
    name = inputs["metadata"]["name"]
    async with connect(context) as client:
        url = f"namespaces/{name}"
        present = await client.find(url)
        if present and ours([present]) and present["metadata"].get("deletionTimestamp"):
            await _gone(client, url)
            present = None
    if present is not None and not ours([present]):
        raise ClusterError(
            Fault(
                f"namespace {name}",
                "one that this program did not make",
                "a name of its own, since the namespace goes with the stack",
                "write another name, or remove the namespace where nobody uses it",
            )
        )
    return []
