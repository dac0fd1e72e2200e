"""Download of a chart's parts over http and https, with limits in bytes and in time."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from typing import Any

from gpu_rules.faults import PartError

LONGEST = 300.0
"""Seconds in which a whole response must arrive."""
_CHUNK = 64 * 1024


class _SameSecurity(urllib.request.HTTPRedirectHandler):
    """urllib handler that follows redirects, but never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if leads_to_http(req.full_url, newurl):
            raise urllib.error.URLError("a redirect from https to http")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> urllib.request.OpenerDirector:
    """Return an opener that follows redirects, but never from https to http."""
    return urllib.request.build_opener(_SameSecurity)


def leads_to_http(address: str, target: str) -> bool:
    """Return whether an https address refers to an address of another scheme."""
    return address.lower().startswith("https:") and not target.lower().startswith("https:")


def download(request: urllib.request.Request, seconds: float, most: int) -> bytes:
    """Return the content of a response.

    Args:
        request: The request; its URL begins with http: or https:.
        seconds: Seconds to wait for the next bytes.
        most: Maximum number of bytes.

    Raises:
        OSError: No whole response came in time, its status is not 200, or https leads to http.
        ValueError: The content has more than `most` bytes, or the URL is invalid.
    """
    latest, content = time.monotonic() + LONGEST, bytearray()
    with opener().open(request, timeout=seconds) as response:
        while chunk := response.read1(_CHUNK):
            content += chunk
            if len(content) > most:
                raise PartError(f"more than {most} bytes")
            if time.monotonic() > latest:
                raise PartError(f"no end in {LONGEST:.0f} s")
    return bytes(content)
