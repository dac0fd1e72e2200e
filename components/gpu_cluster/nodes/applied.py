"""Record of the labels and taints last applied to a node, kept in an annotation. Pure functions.

Each pool writes one annotation under its own field manager. So the annotation is removed together
with the pool's labels, and a node that changes pools never has two writers of one annotation. The
API server's managed fields are not enough as a record: a label's managed field disappears when
somebody else removes the label.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import Field

from gpu_cluster import requests
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.taints import RecordedTaint

PREFIX = "gpu-cluster/applied."
"""Prefix of the key of the annotation with applied settings; the pool's name follows."""
BOUND = 32 * 1024
"""Maximum number of characters of an annotation that are parsed; a longer annotation is ignored."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Scheduling settings that a pool last applied to a node.

    Attributes:
        gpus: Number of GPUs that the node was declared to have.
        labels: Applied labels, by key.
        taints: Applied taints, as in the Node's `spec.taints`.
        unfinished: Whether the run was killed while it was changing the taints.
        together: Whether the Command of all pools applied them. A Command of this pool alone, in
            the state of an earlier version, then keeps them when it is deleted.
    """

    stack: str
    pool: str
    gpus: Annotated[int, Field(ge=0, lt=10**6)]
    labels: Mapping[str, str]
    taints: tuple[RecordedTaint, ...]
    unfinished: bool = False
    together: bool = False


def annotation(pool: PoolScheduling, node: str) -> dict[str, str]:
    """Return the annotation that records the scheduling settings which a pool sets on a node."""
    scheduling = pool.of_node(node)
    record = Applied(
        stack=pool.stack,
        pool=pool.pool,
        gpus=pool.gpus_of(node),
        labels=scheduling.labels,
        taints=scheduling.taints,
        together=pool.together,
    )
    return _write_annotation(record)


def unfinished(node: Json, pool: str) -> dict[str, str]:
    """Return the annotation that marks a node's taints as being changed; empty without a record."""
    record = applied(node, pool)
    return _write_annotation(replace(record, unfinished=True)) if record else {}


def _write_annotation(record: Applied) -> dict[str, str]:
    text = json.dumps(asdict(record), separators=(",", ":"), sort_keys=True)
    return {PREFIX + record.pool: text}


def kept(node: Json, pool: str) -> dict[str, str]:
    """Return the pool's annotation (key and value) from the node; empty if the node has none."""
    key = PREFIX + pool
    annotations = node["metadata"].get("annotations") or {}
    return {key: annotations[key]} if key in annotations else {}


def applied(node: Json, pool: str) -> Applied | None:
    """Return the pool's record from the node's annotation; None if missing or unparsable."""
    for text in kept(node, pool).values():
        return requests.kept(Applied, text, BOUND)
    return None


def every(node: Json, stack: str) -> Iterator[Applied]:
    """Yield the records in the node's annotations that pools of the given stack wrote."""
    return (record for record in _read_records(node) if record.stack == stack)


def of_other_stacks(node: Json, stack: str) -> Iterator[Applied]:
    """Yield the records in the node's annotations that pools of other stacks wrote."""
    return (record for record in _read_records(node) if record.stack != stack)


def _read_records(node: Json) -> Iterator[Applied]:
    for key, text in sorted((node["metadata"].get("annotations") or {}).items()):
        record = requests.kept(Applied, text, BOUND) if key.startswith(PREFIX) else None
        if record is not None and key == PREFIX + record.pool:
            yield record
