"""Advertised and validated GPUs of a pool's nodes, read from Node objects. Pure functions."""

from __future__ import annotations

from gpu_cluster.desired.validation import Advertised
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes import record
from gpu_cluster.nodes.inspect import gpus as amount
from gpu_rules.printable import printable

NAMED = 100
"""Maximum number of nodes of a pool for which the result lists GPU UUIDs.

In a larger pool only the nodes' records list them.
"""


def instances(pool: Advertised) -> int:
    """Return the number of MIG devices per GPU; 0 if the GPUs are not partitioned."""
    return 0 if pool.devices == pool.gpus else pool.devices // pool.gpus


def of_node(pool: Advertised, node: Json) -> Json:
    """Return a node's numbers of GPUs: declared, advertised, validated, simulated and deferred."""
    validation = record.decode(node) or record.ValidationRecord()
    ran = min(validation.gpus(instances(pool)), pool.gpus)
    return {
        "name": node["metadata"]["name"],
        "declared": pool.gpus,
        "offered": {name: amount(node, resource=name) for name in pool.resources},
        "computed": 0 if validation.simulated else ran,
        "simulated": ran if validation.simulated else 0,
        "deferred": pool.gpus - ran,
        "held": printable(validation.held) if ran < pool.gpus else "",
        "since": validation.since,
        "devices": validation.devices,
    }


def output(pool: Advertised, members: list[Json]) -> Json:
    """Return the program's result: one entry per node, in the pool's order.

    The result becomes part of the state and of the outputs, so UUIDs are left out in large pools:
    those of 800 nodes would take 300 kB.
    """
    unnamed: Json = {"devices": {}} if len(members) > NAMED else {}
    return {
        "pool": pool.pool,
        "resources": pool.resources,
        "nodes": [{**of_node(pool, node), **unnamed} for node in members],
    }
