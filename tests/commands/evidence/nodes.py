"""Node objects with records of a validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_cluster.commands.evidence.check import Declared
from gpu_cluster.nodes import record
from tests.commands.evidence.forged import Json, uuid


def node(name: str, number: int, about: Declared, **fields: Any) -> Json:
    """Return a Node with the record that a validation writes."""
    (pool,) = about.validation.pools
    facts = {record.SETTINGS + key: value for key, value in pool.settings.items() if value}
    kept = record.ValidationRecord(
        facts=facts,
        devices={uuid(number, gpu): [] for gpu in range(8)},
        since="2026-11-19T00:00:00Z",
    )
    text = record.encode(replace(kept, **fields))
    return {"metadata": {"name": name, "annotations": {record.RECORD: text}}, "status": {}}
