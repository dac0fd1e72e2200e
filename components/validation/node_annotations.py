"""What the validation of a node reads and writes of it beside its pod."""

from __future__ import annotations

from components.desired.validation import PoolValidation
from components.kubernetes.api import Client, Json, Refused
from components.nodes import record
from components.validation import waiting
from policies.printable import printable

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
GONE = 404
"""HTTP status of what is not there any more."""
TEST_FAILED = 422
"""HTTP status of a JSON patch whose ``test`` fails (kubernetes v1.34.4,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, applyJSPatch)."""
CAUSES = 3
"""Containers of a node's other pods whose messages explain a shortfall."""


async def annotate(client: Client, name: str, kept: record.ValidationRecord | None) -> None:
    """Writes a node's record, or takes it away; a node that is gone has none."""
    value = record.encode(kept) if kept else None
    body = {"metadata": {"annotations": {record.RECORD: value}}}
    try:
        await client.request("PATCH", f"nodes/{name}", body=body, content_type=MERGE)
    except Refused as error:
        if error.code != GONE:
            raise


async def exchange(client: Client, node: Json, kept: record.ValidationRecord | None) -> bool:
    """Replace a node's record, or remove it, unless the record has changed since it was read.

    Commands of several pools run in parallel. When a node moves from one pool to another, the
    former pool's Command removes the record that it has read while the new pool's writes its own.

    Args:
        client: of the cluster.
        node: the Node as it was read, with a record.
        kept: the new record; None removes the record.

    Returns:
        Whether the node still had the record.
    """
    path = f"/metadata/annotations/{record.RECORD.replace('/', '~1')}"
    test = {"op": "test", "path": path, "value": node["metadata"]["annotations"][record.RECORD]}
    change = (
        {"op": "replace", "path": path, "value": record.encode(kept)}
        if kept
        else {"op": "remove", "path": path}
    )
    name = node["metadata"]["name"]
    try:
        await client.request("PATCH", f"nodes/{name}", body=[test, change], content_type=JSON_PATCH)
    except Refused as error:
        if error.code not in (GONE, TEST_FAILED):
            raise
        return False
    return True


async def cause_of(client: Client, node: str) -> str:
    """What the pods of a node say of themselves: messages of containers that don't run."""
    causes = []
    for pod in await client.list("pods", fieldSelector=f"spec.nodeName={node}"):
        for status in pod["status"].get("containerStatuses", []):
            message = (status.get("state", {}).get("waiting") or {}).get("message")
            last = (status.get("lastState", {}).get("terminated") or {}).get("message")
            if last or message:
                text = printable(str(last or message), waiting.SHOWN)
                causes.append(f"{pod['metadata']['name']}: {text}")
    return "; ".join(sorted(set(causes))[:CAUSES])


async def can_validate(client: Client, pool: PoolValidation) -> bool:
    """Return whether the cluster has what validation pods need: it may be new, or change now.

    Args:
        client: of the cluster.
        pool: how the node is validated.
    """
    if await client.find(f"namespaces/{pool.namespace}") is None:
        return False
    name = pool.pod["spec"].get("runtimeClassName")
    url = f"runtimeclasses/{name}"
    return not name or await client.find(url, base="/apis/node.k8s.io") is not None
