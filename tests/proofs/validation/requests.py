"""Read the program's requests to the API server from the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpu_cluster_lab.simulator.control_plane import ControlPlane

AGENT = "gpu-cluster/"
"""User agent of the program's API client."""


@contextmanager
def about_validations(stack: str) -> Iterator[list[tuple[str, str]]]:
    """Yield a list that is filled at the context's end: requests about Jobs and pods."""
    log = ControlPlane(stack).audit_log
    begin, found = log.stat().st_size, []
    yield found
    with log.open("rb") as file:
        file.seek(begin)
        events: list[dict[str, Any]] = [json.loads(line) for line in file]
    found += [
        (event["verb"], event["requestURI"])
        for event in events
        if event.get("userAgent", "").startswith(AGENT)
        and (event.get("objectRef") or {}).get("resource") in ("jobs", "pods")
    ]
