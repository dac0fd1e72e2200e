"""Check that a chart can be fetched and has the expected digest, before the first host is changed.

Pulumi fetches even an unchanged chart only after the resources that the chart's release depends on,
and hosts are among these (pulumi-kubernetes 4.25.0, helm_release.go, Check). An unreachable
repository would leave prepared hosts without a platform. Helm verifies the digest only of an OCI
reference (helm v3.18.6, pkg/downloader/chart_downloader.go), so this module verifies archives.
"""

from __future__ import annotations

import asyncio
import hashlib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from components.base.nesting import LOADER, bound_depth
from policies.printable import printable

# Seconds to wait for a response. Proxies come from environment variables, as for Helm.
ANSWER = 10.0
# Bytes that are read of a response whose content does not matter.
TAKEN = 1024
# Maximum bytes of an index or an archive; NVIDIA's largest index is below 4 MiB.
MOST = 32 * 1024 * 1024
SHOWN = 200
"""Maximum number of characters of an address in an error message."""


@dataclass(frozen=True, kw_only=True)
class WantedChart:
    """A chart that must be available at its source.

    Attributes:
        place: Source of the chart (`components.settings.chart_source`).
        chart: Name of the chart.
        version: Version of the chart.
        digest: Expected digest of the archive; empty if it is unknown.
    """

    place: str
    chart: str = ""
    version: str = ""
    digest: str = ""


async def unreachable(place: str, chart: str = "", version: str = "", digest: str = "") -> str:
    """Return the reason why a chart can't be fetched, or an empty text if no problem was found.

    Args:
        place: Source of the chart, as `components.settings.chart_source` returns it.
        chart: Name of the chart.
        version: Version of the chart.
        digest: Expected digest of the archive; empty if it is unknown.
    """
    if place.startswith("oci://"):
        # Every OCI registry has this endpoint and may require a login (OCI distribution spec,
        # end-1).
        registry = place.removeprefix("oci://").partition("/")[0]
        return await asyncio.to_thread(_asked, f"https://{registry}/v2/", (200, 401))
    if place.startswith(("https://", "http://")):
        # The index file is described in the Helm documentation, "The Chart Repository Guide".
        index = f"{place.rstrip('/')}/index.yaml"
        if not digest:
            return await asyncio.to_thread(_asked, index, (200,))
        return await asyncio.to_thread(_published, index, chart, version, digest)
    path = Path(place).expanduser()
    if place.endswith(".tgz"):
        return await asyncio.to_thread(_compared, place, path.read_bytes, digest)
    return "" if (path / "Chart.yaml").is_file() else "a folder without Chart.yaml"


def _published(index: str, chart: str, version: str, digest: str) -> str:
    """Return the reason why a repository's archive is not the expected one, or an empty text."""
    try:
        url = _archive(_read(index), index, chart, version)
    except (OSError, ValueError) as error:
        return f"no chart from {index} ({printable(str(error), SHOWN)})"
    return _compared(url, lambda: _read(url), digest)


def _compared(place: str, read: Callable[[], bytes], digest: str) -> str:
    try:
        content = read()
    except (OSError, ValueError) as error:
        return f"no archive at {printable(place, SHOWN)} ({printable(str(error), SHOWN)})"
    given = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return "" if given == digest else f"an archive with {given} instead of {digest}"


def _archive(index: bytes, address: str, chart: str, version: str) -> str:
    """Return the URL of a version's archive, found as Helm does (helm v3.18.6, pkg/repo/index.go).

    Raises:
        ValueError: The index is invalid or lacks the version.
    """
    try:
        bound_depth(index)
        document: Any = yaml.load(index, LOADER)  # noqa: S506 # LOADER is a safe loader
        for entry in document["entries"][chart]:
            if str(entry["version"]).removeprefix("v") == version.removeprefix("v"):
                url = urllib.parse.urljoin(address, str(entry["urls"][0]))
                if url.startswith(("https://", "http://")):
                    return url
    except (yaml.YAMLError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError("an index that can't be read") from error
    raise ValueError(f"no {chart} {version} by http")


def _read(url: str) -> bytes:
    """Return the content at a URL.

    Raises:
        OSError: No response came, or its status is not 200.
        ValueError: The content has more than `MOST` bytes, or the URL is invalid.
    """
    with urllib.request.urlopen(url, timeout=ANSWER) as answer:  # noqa: S310 # http and https only
        content: bytes = answer.read(MOST + 1)
    if len(content) > MOST:
        raise ValueError(f"more than {MOST} bytes")
    return content


def _asked(url: str, answers: tuple[int, ...]) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER) as answer:  # noqa: S310 # http and https only
            answer.read(TAKEN)
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except urllib.error.URLError as error:
        return f"no answer from {url} ({error.reason})"
    except (OSError, ValueError) as error:
        return f"no answer from {url} ({error})"
    return "" if status in answers else f"HTTP {status} from {url}"
