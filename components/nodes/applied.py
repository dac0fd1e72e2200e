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

from components.desired.pool import PoolScheduling
from components.kubernetes.api import Json

PREFIX = "gpu-cluster/applied."
"""Prefix of the annotation's key; the pool's name follows."""
BOUND = 32 * 1024
"""Maximum number of characters of an annotation that are parsed; a longer annotation is ignored."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Scheduling settings that a pool last applied to a node.

    Attributes:
        stack: Name of the stack.
        pool: Name of the pool.
        gpus: Number of GPUs that the node was declared to have.
        labels: Applied labels, by key.
        taints: Applied taints, as in the Node's `spec.taints`.
        unfinished: Whether the run was killed while it was changing the taints.
    """

    stack: str
    pool: str
    gpus: int
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unfinished: bool = False


def annotation(pool: PoolScheduling, node: str) -> dict[str, str]:
    """Return the annotation of a node to which all of its pool's settings were applied."""
    wanted = pool.of_node(node)
    record = Applied(
        stack=pool.stack,
        pool=pool.pool,
        gpus=pool.gpus_of(node),
        labels=wanted.labels,
        taints=wanted.taints,
    )
    return _written(record)


def unfinished(node: Json, pool: str) -> dict[str, str]:
    """Return the annotation that marks a node's taints as being changed; empty without a record."""
    record = applied(node, pool)
    return _written(replace(record, unfinished=True)) if record else {}


def _written(record: Applied) -> dict[str, str]:
    text = json.dumps(asdict(record), separators=(",", ":"), sort_keys=True)
    return {PREFIX + record.pool: text}


def kept(node: Json, pool: str) -> dict[str, str]:
    """Return the annotation as it is on the node; empty if the node has none."""
    key = PREFIX + pool
    annotations = node["metadata"].get("annotations") or {}
    return {key: annotations[key]} if key in annotations else {}


def applied(node: Json, pool: str) -> Applied | None:
    """Return the record of a pool on a node; None if there is none or it can't be parsed."""
    for text in kept(node, pool).values():
        return _read(text)
    return None


def every(node: Json, stack: str) -> Iterator[Applied]:
    """Yield the records on a node that pools of the given stack wrote."""
    for key, text in sorted((node["metadata"].get("annotations") or {}).items()):
        record = _read(text) if key.startswith(PREFIX) else None
        if record is not None and record.stack == stack and key == PREFIX + record.pool:
            yield record


def _read(text: str) -> Applied | None:
    if len(text) > BOUND:
        return None
    try:
        document = json.loads(text)
        record = Applied(**{**document, "taints": tuple(document["taints"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return record if _is_sound(record) else None


def _is_sound(record: Applied) -> bool:
    return (
        isinstance(record.stack, str)
        and isinstance(record.pool, str)
        and type(record.gpus) is int
        and 0 <= record.gpus < 10**6
        and isinstance(record.unfinished, bool)
        and isinstance(record.labels, dict)
        and all(isinstance(value, str) for value in record.labels.values())
        and all(_is_taint(taint) for taint in record.taints)
    )


def _is_taint(taint: object) -> bool:
    return (
        isinstance(taint, dict)
        and {"key", "effect"} <= taint.keys()
        and all(isinstance(value, str) for value in taint.values())
    )
