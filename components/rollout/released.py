"""What must be there before a node is validated in its turn."""

from __future__ import annotations

from components.api import Client, Json


async def can_validate(client: Client, pool: Json) -> bool:
    """Whether the cluster has what validation pods need: it may be new, or change now, too.

    Args:
        client: of the cluster.
        pool: input of `components.validation.validate`.
    """
    if await client.find(f"namespaces/{pool['namespace']}") is None:
        return False
    name = pool["pod"]["spec"].get("runtimeClassName")
    url = f"runtimeclasses/{name}"
    return not name or await client.find(url, base="/apis/node.k8s.io") is not None
