"""What a node was last applied with, kept in an annotation of the node. Pure.

One annotation for each pool, under the pool's field manager: so it goes with the pool's labels, and
a node that changes pools never has two writers of one annotation. What a label's managed field
says isn't enough: it goes when somebody else removes the label.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from components.desired.pool import PoolScheduling
from components.kubernetes.api import Json

PREFIX = "gpu-cluster/applied."
"""Before the pool's name, in the annotation's key."""
BOUND = 32 * 1024
"""Characters of a record that are read."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What a node was last applied with for a pool.

    Attributes:
        stack: name of the stack.
        pool: name of the pool.
        gpus: GPUs that the node was declared to have.
        labels: its labels by key.
        taints: its taints, as the API server has them.
        unfinished: other taints were being applied when a run was killed.
    """

    stack: str
    pool: str
    gpus: int
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unfinished: bool = False


def annotation(pool: PoolScheduling, node: str) -> dict[str, str]:
    """Return the annotation of a node to which all of its pool's scheduling was applied."""
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
    """Return the annotation of a node while other taints are applied; empty if it has none."""
    record = applied(node, pool)
    return _written(replace(record, unfinished=True)) if record else {}


def _written(record: Applied) -> dict[str, str]:
    text = json.dumps(asdict(record), separators=(",", ":"), sort_keys=True)
    return {PREFIX + record.pool: text}


def kept(node: Json, pool: str) -> dict[str, str]:
    """Return the annotation as the node has it; empty where it has none."""
    key = PREFIX + pool
    annotations = node["metadata"].get("annotations") or {}
    return {key: annotations[key]} if key in annotations else {}


def applied(node: Json, pool: str) -> Applied | None:
    """Return what a node was last applied with for a pool; None: nothing, or it can't be read."""
    for text in kept(node, pool).values():
        return _read(text)
    return None


def every(node: Json, stack: str) -> Iterator[Applied]:
    """Yield what a node was last applied with, by each pool of a stack."""
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
