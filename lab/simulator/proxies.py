"""Keeps the embedded cluster, which is on loopback alone, away from the user's proxies."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Mapping

VARIABLES = frozenset(
    spelled(f"{kind}_proxy")
    for kind in ("http", "https", "all")
    for spelled in (str.lower, str.upper)
)
"""Variables that name proxies."""


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that names no proxy: for processes that talk to loopback only."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}


def direct(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Return an opener that uses no proxy; urllib by itself sends loopback to one too."""
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
