"""Why nodes of a pool must be validated: what the inspection of the cluster tells, read-only."""

from __future__ import annotations

from components.api import Client, Json
from components.validation import record, use
from components.validation.asked import is_asked
from components.validation.offered import shortfall

NAMED = 5
"""Nodes that one finding names; the others are counted."""


def reason(node: Json, document: Json, daemon_sets: list[Json]) -> str:
    """Why a node's last validation does not hold; empty where it does."""
    kept = record.decode(node)
    if kept is None:
        return "not validated"
    if changed := record.changes(kept, record.facts(node, document, daemon_sets)):
        return changed
    if short := shortfall(node, document["gpus"], document["resources"]):
        return short
    return "asked for" if is_asked(node["metadata"]["name"]) else ""


async def _freed(client: Client, node: Json, document: Json) -> str:
    """Whether GPUs that a validation left out may be free now.

    As long as the same pods hold them nothing can be gained, and the run changes nothing.
    """
    kept = record.decode(node)
    if kept is None or not kept.missing:
        return ""
    holders = await use.holders(client, node["metadata"]["name"], document)
    free = use.free(node, document, holders)
    if not any(free.values()) or use.digest(holders) == kept.holders:
        return ""
    return "GPUs that others held may be free"


async def drift(
    client: Client, members: list[Json], document: Json, daemon_sets: list[Json]
) -> str | None:
    """Which nodes of a pool must be validated, and why; None where all records hold."""
    findings: dict[str, list[str]] = {}
    for node in members:
        why = reason(node, document, daemon_sets) or await _freed(client, node, document)
        if why:
            findings.setdefault(why, []).append(node["metadata"]["name"])
    parts = []
    for why, names in findings.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        parts.append(f"{', '.join(names[:NAMED])}{more}: {why}")
    return "; ".join(parts[:NAMED]) or None
