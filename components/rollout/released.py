"""What must be there before a node is validated in its turn."""

from __future__ import annotations

from components.desired.validation import PoolValidation
from components.kubernetes.api import Client


async def can_validate(client: Client, pool: PoolValidation) -> bool:
    """Whether the cluster has what validation pods need: it may be new, or change now, too.

    Args:
        client: of the cluster.
        pool: how the node is validated.
    """
    if await client.find(f"namespaces/{pool.namespace}") is None:
        return False
    name = pool.pod["spec"].get("runtimeClassName")
    url = f"runtimeclasses/{name}"
    return not name or await client.find(url, base="/apis/node.k8s.io") is not None
