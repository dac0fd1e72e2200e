"""Validation records in Node annotations, and a check for objects that validation pods need."""

from __future__ import annotations

from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.nodes import record

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
GONE = 404
"""HTTP status of an object that no longer exists."""
TEST_FAILED = 422
"""HTTP status of a JSON patch whose `test` fails.

Source: kubernetes v1.34.4, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go,
applyJSPatch.
"""


async def annotate(client: Client, name: str, validation: record.ValidationRecord | None) -> None:
    """Write or remove the annotation with a node's validation record; ignore a deleted node."""
    value = record.encode(validation) if validation else None
    body = {"metadata": {"annotations": {record.RECORD: value}}}
    try:
        await client.request("PATCH", f"nodes/{name}", body=body, content_type=MERGE)
    except Refused as error:
        if error.code != GONE:
            raise


async def exchange(client: Client, node: Json, validation: record.ValidationRecord | None) -> bool:
    """Replace or remove a node's validation record, unless it has changed since it was read.

    In the state of an earlier version, each pool has a Command, whose deletion removes the records
    that it has read while the Command of all pools takes records over.

    Args:
        node: The Node as it was read, with a record.
        validation: The new record. None removes the record.

    Returns:
        Whether the node still had the record.
    """
    path = f"/metadata/annotations/{record.RECORD.replace('/', '~1')}"
    test = {"op": "test", "path": path, "value": node["metadata"]["annotations"][record.RECORD]}
    change = (
        {"op": "replace", "path": path, "value": record.encode(validation)}
        if validation
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


async def can_validate(client: Client, pool: PoolValidation) -> bool:
    """Return whether the cluster has the namespace and the RuntimeClass that validation pods need.

    Both may be missing in a new cluster, or if the same run is about to create them.

    Args:
        pool: Validation settings of the node's pool.
    """
    if await client.find(f"namespaces/{pool.namespace}") is None:
        return False
    name = pool.pod["spec"].get("runtimeClassName")
    url = f"runtimeclasses/{name}"
    return not name or await client.find(url, base="/apis/node.k8s.io") is not None
