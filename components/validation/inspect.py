"""Read-only inspection: which of a pool's nodes must be validated, and why."""

from __future__ import annotations

from components.desired.validation import PoolValidation
from components.findings import Finding, Findings
from components.kubernetes.api import Client, Json
from components.nodes import gpu_holders, record
from components.validation.difference import compare, due


async def _freed(client: Client, node: Json, pool: PoolValidation) -> str:
    """Return a reason to validate a node again if GPUs that other pods used may be free now.

    The result is empty as long as the same pods use the GPUs, because another validation could
    not reach these GPUs.
    """
    kept = record.decode(node)
    if kept is None or not kept.missing:
        return ""
    holders = await gpu_holders.holders(
        client, node["metadata"]["name"], pool.resources, pool.namespace
    )
    return "GPUs that other pods used may be free" if _may_be_free(node, pool, holders) else ""


def _may_be_free(node: Json, pool: PoolValidation, holders: list[gpu_holders.Holder]) -> bool:
    kept, free = record.decode(node), gpu_holders.free(node, pool.offers, holders)
    return bool(kept and any(free.values()) and gpu_holders.digest(holders) != kept.holders)


async def deferred(
    client: Client, members: list[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> dict[str, str]:
    """Return, by node, text about the pods that use GPUs which no run has validated.

    Nodes that this run validates are left out.
    """
    found = {}
    for node in members:
        kept = record.decode(node)
        if kept is None or not kept.missing or compare(node, pool, daemon_sets):
            continue
        name = node["metadata"]["name"]
        holders = [
            one
            for one in await gpu_holders.holders(client, name, pool.resources, pool.namespace)
            if one.amounts
        ]
        if holders and not _may_be_free(node, pool, holders):
            count = f"{kept.missing} GPU{'s' * (kept.missing > 1)}"
            found[name] = f"{count} not validated: held by {gpu_holders.named(holders)}"
    return found


async def findings(
    client: Client, members: list[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> Findings:
    """Return findings for the nodes of a pool that must be validated; empty if there are none."""
    found: list[Finding] = []
    for node in members:
        every = compare(node, pool, daemon_sets)
        if not every and (why := await _freed(client, node, pool)):
            every = (due(node["metadata"]["name"], why),)
        found += every
    return tuple(found)
