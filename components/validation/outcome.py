"""What a pool's nodes offer and have proved, from their objects alone. Pure functions."""

from __future__ import annotations

from components.api import Json
from components.nodes.inspect import gpus as amount
from components.validation import record
from config.printable import printable

NAMED = 100
"""Nodes of a pool whose GPUs the result names by UUID; of a larger one their records do alone."""


def instances(document: Json) -> int:
    """MIG devices of each GPU; 0 where GPUs are whole."""
    devices: int = sum(resource["devices"] for resource in document["devices"].values())
    gpus: int = document["gpus"]
    return 0 if devices == gpus else devices // gpus


def of_node(document: Json, node: Json) -> Json:
    """One node: GPUs declared, offered, computed, simulated, deferred (and held by whom)."""
    kept = record.decode(node) or record.Record()
    ran = min(kept.gpus(instances(document)), document["gpus"])
    return {
        "name": node["metadata"]["name"],
        "declared": document["gpus"],
        "offered": {name: amount(node, resource=name) for name in document["resources"]},
        "computed": 0 if kept.simulated else ran,
        "simulated": ran if kept.simulated else 0,
        "deferred": document["gpus"] - ran,
        "held": printable(kept.held) if ran < document["gpus"] else "",
        "since": kept.since,
        "devices": kept.devices,
    }


def output(document: Json, members: list[Json]) -> Json:
    """The program's result: one entry per node, in the pool's order.

    It becomes part of the state and of the outputs: 800 nodes' UUIDs would take 300 kB there.
    """
    unnamed: Json = {"devices": {}} if len(members) > NAMED else {}
    return {
        "pool": document["pool"],
        "resources": document["resources"],
        "nodes": [{**of_node(document, node), **unnamed} for node in members],
    }
