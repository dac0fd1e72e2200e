"""What the validation of a node reads and writes of it beside its pod."""

from __future__ import annotations

from components.api import Client, Refused
from components.validation import record, waiting
from config.printable import printable

MERGE = "application/merge-patch+json"
GONE = 404
"""HTTP status of what is not there any more."""
CAUSES = 3
"""Containers of a node's other pods whose messages explain a shortfall."""


async def annotate(client: Client, name: str, kept: record.Record | None) -> None:
    """Writes a node's record, or takes it away; a node that is gone has none."""
    value = record.encode(kept) if kept else None
    body = {"metadata": {"annotations": {record.RECORD: value}}}
    try:
        await client.request("PATCH", f"nodes/{name}", body=body, content_type=MERGE)
    except Refused as error:
        if error.code != GONE:
            raise


async def cause_of(client: Client, node: str) -> str:
    """What the pods of a node say of themselves: messages of containers that don't run."""
    causes = []
    for pod in await client.list("pods", fieldSelector=f"spec.nodeName={node}"):
        for status in pod["status"].get("containerStatuses", []):
            message = (status.get("state", {}).get("waiting") or {}).get("message")
            last = (status.get("lastState", {}).get("terminated") or {}).get("message")
            if last or message:
                text = printable(str(last or message), waiting.SHOWN)
                causes.append(f"{pod['metadata']['name']}: {text}")
    return "; ".join(sorted(set(causes))[:CAUSES])
