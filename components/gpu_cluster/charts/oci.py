"""Fetch a chart from an OCI registry without a login.

Sources: OCI distribution specification 1.1 (end-2, end-3); Docker's token authentication
(distribution/distribution, docs/spec/auth/token.md); Helm documentation, "Use OCI-based
registries", for the media type of a chart.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from gpu_cluster.charts.download import download
from gpu_rules.faults import PartError

LIMIT = 10.0
"""Timeout in seconds for one response."""
MOST = 32 * 1024 * 1024
"""Maximum number of bytes of a response."""
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_ACCEPTED = "application/vnd.oci.image.manifest.v1+json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class LoginRequiredError(Exception):
    """A registry requires a login to download a chart."""


def chart(registry: str, name: str, reference: str) -> bytes:
    """Return the archive of a chart.

    Args:
        registry: URL of the registry.
        name: Name of the repository in the registry.
        reference: Tag or digest.

    Raises:
        LoginRequiredError: The registry requires a login.
        ValueError: The registry has no such chart, or its response is invalid.
        OSError: The registry can't be reached.
    """
    # Like Helm, replace the plus sign of a chart version, which a tag can't contain.
    tag = reference.replace("+", "_")
    base = f"{registry}/v2/{urllib.parse.quote(name)}"
    content, token = _get(f"{base}/manifests/{urllib.parse.quote(tag)}", "", registry)
    try:
        manifest = json.loads(content)
        digests = [layer["digest"] for layer in manifest["layers"] if layer["mediaType"] == CHART]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PartError("a manifest that can't be read") from None
    if len(digests) != 1 or not _DIGEST.fullmatch(str(digests[0])):
        raise PartError("no Helm chart")
    return _get(f"{base}/blobs/{digests[0]}", token, registry)[0]


def _get(url: str, token: str, registry: str) -> tuple[bytes, str]:
    """Return the content at a URL, and the token with which the registry served it."""
    try:
        return _read_registry(url, token), token
    except urllib.error.HTTPError as error:
        challenge, code = str(error.headers.get("WWW-Authenticate", "")), error.code
        error.close()
    if code == 401 and not token and (anonymous_token := _request_token(challenge, registry)):
        return _get(url, anonymous_token, registry)
    if code in (401, 403):
        raise LoginRequiredError
    raise PartError(f"HTTP {code} from {url}")


def _request_token(challenge: str, registry: str) -> str:
    """Return an anonymous token from the server in a WWW-Authenticate header; empty on failure."""
    # Without \b, each letter of a long word begins a search that fails at the word's end.
    parameters = dict(re.findall(r'\b(\w+)="([^"]*)"', challenge))
    realm = parameters.get("realm", "")
    if not challenge.lower().startswith("bearer ") or not realm.startswith(("https://", registry)):
        return ""
    query = urllib.parse.urlencode(
        {k: parameters[k] for k in ("service", "scope") if k in parameters}
    )
    try:
        document: Any = json.loads(_read_registry(f"{realm}?{query}", ""))
    except (OSError, ValueError, RecursionError):
        return ""
    token = (
        document.get("token", document.get("access_token")) if isinstance(document, Mapping) else ""
    )
    return token if isinstance(token, str) and re.fullmatch(r"[!-~]{1,16384}", token) else ""


def _read_registry(url: str, token: str) -> bytes:
    headers = {"Accept": _ACCEPTED, **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 # http and https only
    return download(request, LIMIT, MOST)
