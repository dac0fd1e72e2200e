"""What a pool's nodes offer and have proved, from their objects alone. Pure functions."""

from __future__ import annotations

from components.desired.validation import Advertised
from components.kubernetes.api import Json
from components.nodes import record
from components.nodes.inspect import gpus as amount
from policies.printable import printable

NAMED = 100
"""Nodes of a pool whose GPUs the result names by UUID; of a larger one their records do alone."""


def instances(pool: Advertised) -> int:
    """Return the MIG devices of each GPU; 0 if GPUs are whole."""
    return 0 if pool.devices == pool.gpus else pool.devices // pool.gpus


def of_node(pool: Advertised, node: Json) -> Json:
    """Return the GPUs of a node: declared, offered, computed, simulated, deferred and by whom."""
    kept = record.decode(node) or record.ValidationRecord()
    ran = min(kept.gpus(instances(pool)), pool.gpus)
    return {
        "name": node["metadata"]["name"],
        "declared": pool.gpus,
        "offered": {name: amount(node, resource=name) for name in pool.resources},
        "computed": 0 if kept.simulated else ran,
        "simulated": ran if kept.simulated else 0,
        "deferred": pool.gpus - ran,
        "held": printable(kept.held) if ran < pool.gpus else "",
        "since": kept.since,
        "devices": kept.devices,
    }


def output(pool: Advertised, members: list[Json]) -> Json:
    """The program's result: one entry per node, in the pool's order.

    It becomes part of the state and of the outputs: 800 nodes' UUIDs would take 300 kB there.
    """
    unnamed: Json = {"devices": {}} if len(members) > NAMED else {}
    return {
        "pool": pool.pool,
        "resources": pool.resources,
        "nodes": [{**of_node(pool, node), **unnamed} for node in members],
    }
