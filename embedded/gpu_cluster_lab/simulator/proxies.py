"""Keep connections to the embedded cluster, which listens on loopback, away from HTTP proxies."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Mapping

from gpu_cluster.machine.proxies import PROXY_VARIABLES


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without proxy settings, for processes that only use loopback."""
    return {name: value for name, value in environment.items() if name not in PROXY_VARIABLES}


def direct(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Return a urllib opener that uses no proxy.

    By default urllib uses proxies for loopback addresses as well.
    """
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
