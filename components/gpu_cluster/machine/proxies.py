"""Environment variables that set a proxy."""

from __future__ import annotations

PROXY_VARIABLES = frozenset(
    spelled(f"{kind}_proxy")
    for kind in ("http", "https", "all")
    for spelled in (str.lower, str.upper)
)
