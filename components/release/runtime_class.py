"""The RuntimeClass of pods with GPUs: ours, the GPU Operator's or somebody else's.

The operator makes one of the same name, writes itself over one that is there on each of its
rounds, and never looks at it again: it goes with the operator's policy, by the garbage collector
(NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, transformRuntimeClass). K3s brings
one of its own. So it isn't a plain resource of the stack: ``own`` makes it where it is missing,
``settle`` takes over what the operator leaves, ``remove`` takes away what is still ours.

Input: a `RuntimeClassRequest`. ``remove`` reads what ``own`` noted.
"""

from __future__ import annotations

import asyncio
import time

from components.kubernetes import grammar
from components.kubernetes.api import Client, ClusterError, Json, Refused, connect
from components.kubernetes.labels import LABELS
from components.platforms.requests import NotedRuntimeClass, RuntimeClassRequest
from components.program import main
from components.requests import previous
from policies.faults import Fault

BASE = "/apis/node.k8s.io"
OPERATOR = "ClusterPolicy"
#: Seconds until the policy that owns a RuntimeClass is gone.
POLICY_GONE = 60


def manifest(name: str) -> Json:
    """The RuntimeClass as this program makes it."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name, "labels": LABELS},
        "handler": name,
    }


def is_ours(runtime_class: Json) -> bool:
    """Whether this program made it and nobody took it over."""
    labels = runtime_class["metadata"].get("labels") or {}
    return LABELS.items() <= labels.items() and not runtime_class["metadata"].get("ownerReferences")


def policy(runtime_class: Json) -> Json | None:
    """The reference to the operator's policy that owns it; None: no policy does."""
    owners = runtime_class["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner["kind"] == OPERATOR), None)


async def own(wanted: RuntimeClassRequest) -> NotedRuntimeClass:
    """Makes it where it is missing.

    Raises:
        ClusterError: one of somebody else, with another handler.
    """
    name = wanted.name
    async with connect(wanted.context) as client:
        runtime_class = await client.find(f"runtimeclasses/{name}", base=BASE)
        if runtime_class is None:
            await client.request("POST", "runtimeclasses", base=BASE, body=manifest(name))
            return NotedRuntimeClass(made=True)
    if runtime_class["handler"] != name:
        raise ClusterError(
            Fault(
                f"RuntimeClass {name}",
                f"one with handler {runtime_class['handler']}",
                f"handler {name}, which pods with GPUs need",
                f'`kubectl delete runtimeclass {name}`, or write "runtime.defaultRuntime: nvidia"',
            )
        )
    return NotedRuntimeClass(made=is_ours(runtime_class) or policy(runtime_class) is not None)


async def settle(client: Client, name: str) -> None:
    """Makes it where it is missing, and ours where the policy that owns it is gone.

    Raises:
        ClusterError: the policy stays.
    """
    url = f"runtimeclasses/{name}"
    deadline = time.monotonic() + POLICY_GONE
    while True:
        runtime_class = await client.find(url, base=BASE)
        try:
            if runtime_class is None:
                await client.request("POST", "runtimeclasses", base=BASE, body=manifest(name))
                return
            owner = policy(runtime_class)
            if owner is None:
                return
            group, _, _ = grammar.api_version(owner["apiVersion"]).partition("/")
            url_of_owner = f"clusterpolicies/{grammar.name(owner['name'])}"
            living = await client.find(url_of_owner, base=f"/apis/{group}")
            if living is None or living["metadata"]["uid"] != owner["uid"]:
                version = runtime_class["metadata"]["resourceVersion"]
                body = manifest(name)
                body["metadata"]["resourceVersion"] = version
                await client.request("PUT", url, base=BASE, body=body)
                return
        except Refused as error:
            if error.code not in (404, 409):  # collected or changed meanwhile: look again
                raise
        if time.monotonic() > deadline:
            raise ClusterError(
                Fault(
                    f"RuntimeClass {name}",
                    f"it is still the GPU Operator's after {POLICY_GONE} s",
                    "its ClusterPolicy gone",
                    "look at its finalizers (`kubectl get clusterpolicy -o yaml`), then run again",
                )
            )
        await asyncio.sleep(0.2)


async def remove(wanted: RuntimeClassRequest) -> Json:
    """Takes it away where it came with the stack and nobody took it over."""
    name, url = wanted.name, f"runtimeclasses/{wanted.name}"
    made = previous(NotedRuntimeClass).made
    async with connect(wanted.context) as client:
        runtime_class = await client.find(url, base=BASE)
        if not made or runtime_class is None or not is_ours(runtime_class):
            return {"removed": []}
        try:
            await client.request("DELETE", url, base=BASE)
        except Refused as error:
            if error.code != 404:
                raise
    return {"removed": [name]}


if __name__ == "__main__":
    main(RuntimeClassRequest, {"own": own, "remove": remove})
