"""Why nodes of a pool must be validated: what the inspection of the cluster tells, read-only."""

from __future__ import annotations

from components.desired.validation import PoolValidation
from components.kubernetes.api import Client, Json
from components.nodes import record, use
from components.nodes.inspect import shortfall
from components.validation.asked import is_asked

NAMED = 5
"""Nodes that one finding names; the others are counted."""


def reason(node: Json, pool: PoolValidation, daemon_sets: list[Json]) -> str:
    """Why a node's last validation does not hold; empty where it does."""
    kept = record.decode(node)
    if kept is None:
        return "not validated"
    if changed := record.changes(kept, record.facts(node, pool, daemon_sets)):
        return changed
    if short := shortfall(node, pool.gpus, pool.resources):
        return short
    return "asked for" if is_asked(node["metadata"]["name"]) else ""


async def _freed(client: Client, node: Json, pool: PoolValidation) -> str:
    """Whether GPUs that a validation left out may be free now.

    As long as the same pods hold them nothing can be gained, and the run changes nothing.
    """
    kept = record.decode(node)
    if kept is None or not kept.missing:
        return ""
    holders = await use.holders(client, node["metadata"]["name"], pool.resources, pool.namespace)
    return "GPUs that others held may be free" if _may_be_free(node, pool, holders) else ""


def _may_be_free(node: Json, pool: PoolValidation, holders: list[use.Holder]) -> bool:
    kept, free = record.decode(node), use.free(node, pool.offers, holders)
    return bool(kept and any(free.values()) and use.digest(holders) != kept.holders)


async def deferred(
    client: Client, members: list[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> dict[str, str]:
    """Return who holds the GPUs that no run has validated, by node.

    Nodes that this run validates are left out.
    """
    found = {}
    for node in members:
        kept = record.decode(node)
        if kept is None or not kept.missing or reason(node, pool, daemon_sets):
            continue
        name = node["metadata"]["name"]
        holders = [
            one
            for one in await use.holders(client, name, pool.resources, pool.namespace)
            if one.amounts
        ]
        if holders and not _may_be_free(node, pool, holders):
            count = f"{kept.missing} GPU{'s' * (kept.missing > 1)}"
            found[name] = f"{count} not validated: held by {use.named(holders)}"
    return found


async def drift(
    client: Client, members: list[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> str | None:
    """Which nodes of a pool must be validated, and why; None where all records hold."""
    findings: dict[str, list[str]] = {}
    for node in members:
        why = reason(node, pool, daemon_sets) or await _freed(client, node, pool)
        if why:
            findings.setdefault(why, []).append(node["metadata"]["name"])
    parts = []
    for why, names in findings.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        parts.append(f"{', '.join(names[:NAMED])}{more}: {why}")
    return "; ".join(parts[:NAMED]) or None
