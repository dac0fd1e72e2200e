"""Read-only inspection: which of a pool's nodes must be validated, and why."""

from __future__ import annotations

from components.desired.validation import PoolValidation
from components.findings import Finding, Findings
from components.kubernetes.api import Client, Json
from components.nodes import gpu_holders, record
from components.validation.difference import compare, due


async def _freed(client: Client, node: Json, pool: PoolValidation) -> str:
    """Return a reason to validate again if GPUs that were held may be free now; else empty.

    As long as the same pods hold the GPUs, another validation could prove nothing more, so the run
    changes nothing.
    """
    kept = record.decode(node)
    if kept is None or not kept.missing:
        return ""
    holders = await gpu_holders.holders(
        client, node["metadata"]["name"], pool.resources, pool.namespace
    )
    return "GPUs that others held may be free" if _may_be_free(node, pool, holders) else ""


def _may_be_free(node: Json, pool: PoolValidation, holders: list[gpu_holders.Holder]) -> bool:
    kept, free = record.decode(node), gpu_holders.free(node, pool.offers, holders)
    return bool(kept and any(free.values()) and gpu_holders.digest(holders) != kept.holders)


async def deferred(
    client: Client, members: list[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> dict[str, str]:
    """Return which pods hold the GPUs that no run has validated, by node.

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
    """Return which nodes of a pool must be validated, and why; empty if all records are valid."""
    found: list[Finding] = []
    for node in members:
        every = compare(node, pool, daemon_sets)
        if not every and (why := await _freed(client, node, pool)):
            every = (due(node["metadata"]["name"], why),)
        found += every
    return tuple(found)
