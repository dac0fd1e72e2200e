"""Program `runtime-class`: the RuntimeClass of GPU pods, which several programs can create.

The GPU Operator creates a RuntimeClass of the same name. On each reconciliation the operator takes
ownership of it, and the garbage collector deletes it together with the operator's ClusterPolicy
(NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, transformRuntimeClass). K3s also
creates one. Therefore the RuntimeClass is no plain resource of the stack. The action `own` creates
it if it is missing, the function `settle` adopts it after the operator's removal, and the action
`remove` deletes it if it still belongs to this program.

Input: a `RuntimeClassRequest`. `remove` reads the `NotedRuntimeClass` that `own` printed.
"""

from __future__ import annotations

import asyncio
import time

from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms.requests import NotedRuntimeClass, RuntimeClassRequest
from gpu_cluster.program import main
from gpu_cluster.requests import previous
from gpu_rules.faults import Fault

BASE = "/apis/node.k8s.io"
OPERATOR = "ClusterPolicy"
# Seconds to wait until the ClusterPolicy that owns a RuntimeClass is deleted.
POLICY_GONE = 60


def manifest(name: str) -> Json:
    """Return the manifest of the RuntimeClass that this program creates."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name, "labels": LABELS},
        "handler": name,
    }


def is_ours(runtime_class: Json) -> bool:
    """Return True if this program created the RuntimeClass and it has no other owner."""
    labels = runtime_class["metadata"].get("labels") or {}
    return LABELS.items() <= labels.items() and not runtime_class["metadata"].get("ownerReferences")


def policy(runtime_class: Json) -> Json | None:
    """Return the RuntimeClass's owner reference to the operator's ClusterPolicy, or None."""
    owners = runtime_class["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner["kind"] == OPERATOR), None)


async def own(desired: RuntimeClassRequest) -> NotedRuntimeClass:
    """Create the RuntimeClass if it is missing.

    Raises:
        ClusterError: A RuntimeClass of this name has another handler.
    """
    name = desired.name
    async with connect(desired.context) as client:
        runtime_class = await client.find(f"runtimeclasses/{name}", base=BASE)
        if runtime_class is None:
            await client.request("POST", "runtimeclasses", base=BASE, body=manifest(name))
            return NotedRuntimeClass(made=True)
    if runtime_class["handler"] != name:
        raise ClusterError(
            Fault(
                f"RuntimeClass {name}",
                f"a RuntimeClass with handler {runtime_class['handler']}",
                f"handler {name}, which pods with GPUs need",
                f'`kubectl delete runtimeclass {name}`, or write "runtime.defaultRuntime: nvidia"',
            )
        )
    return NotedRuntimeClass(made=is_ours(runtime_class) or policy(runtime_class) is not None)


async def settle(client: Client, name: str) -> None:
    """Create the RuntimeClass if it is missing; adopt it if its owner was deleted.

    Raises:
        ClusterError: The ClusterPolicy still exists after `POLICY_GONE` seconds.
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
            # Another client deleted or changed the RuntimeClass in the meantime: read it again.
            if error.code not in (404, 409):
                raise
        if time.monotonic() > deadline:
            raise ClusterError(
                Fault(
                    f"RuntimeClass {name}",
                    f"a RuntimeClass that the GPU Operator still owns after {POLICY_GONE} s",
                    "the operator's ClusterPolicy to be deleted",
                    "check the ClusterPolicy's finalizers (`kubectl get clusterpolicy -o "
                    "yaml`), then run again",
                )
            )
        await asyncio.sleep(0.2)


async def remove(desired: RuntimeClassRequest) -> Json:
    """Delete the RuntimeClass if this program created it and it has no other owner."""
    name, url = desired.name, f"runtimeclasses/{desired.name}"
    is_created = previous(NotedRuntimeClass).made
    async with connect(desired.context) as client:
        runtime_class = await client.find(url, base=BASE)
        if not is_created or runtime_class is None or not is_ours(runtime_class):
            return {"removed": []}
        try:
            await client.request("DELETE", url, base=BASE)
        except Refused as error:
            if error.code != 404:
                raise
    return {"removed": [name]}


if __name__ == "__main__":
    main(RuntimeClassRequest, {"own": own, "remove": remove})
