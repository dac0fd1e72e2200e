"""Whether a chart can be had, and is what it must be, before the first host is changed. Reads only.

The engine fetches a chart, also an unchanged one, when the resources before it are done, and hosts
are among them (pulumi-kubernetes 4.25.0, helm_release.go, Check): a repository that doesn't answer
would leave prepared hosts and no platform. Helm compares the digest of an OCI reference only (helm
v3.18.6, pkg/downloader/chart_downloader.go), so archives are compared here.
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

#: Seconds for an answer, proxies included: those of the environment, as Helm takes them.
ANSWER = 10.0
#: Bytes that are read of an answer; that it comes is what counts.
TAKEN = 1024
#: Bytes of an index or an archive: the largest index of NVIDIA's is below 4 MiB.
MOST = 32 * 1024 * 1024
SHOWN = 200
"""Characters of an address that an error shows."""


@dataclass(frozen=True, kw_only=True)
class WantedChart:
    """A chart that must be at its place.

    Attributes:
        place: where it is fetched from (`components.settings.chart_source`).
        chart: its name; `version`: its version.
        digest: what its archive must have; empty: none is known.
    """

    place: str
    chart: str = ""
    version: str = ""
    digest: str = ""


async def unreachable(place: str, chart: str = "", version: str = "", digest: str = "") -> str:
    """Why a chart can't be had from a place; empty where nothing speaks against it.

    Args:
        place: as `components.settings.chart_source` gives it.
        chart: its name.
        version: of the chart.
        digest: what its archive must have; empty where none is known.
    """
    if place.startswith("oci://"):
        # Each registry has it, and may want a log-in there (OCI distribution spec, end-1).
        registry = place.removeprefix("oci://").partition("/")[0]
        return await asyncio.to_thread(_asked, f"https://{registry}/v2/", (200, 401))
    if place.startswith(("https://", "http://")):
        # Helm documentation, "The Chart Repository Guide": the index file.
        index = f"{place.rstrip('/')}/index.yaml"
        if not digest:
            return await asyncio.to_thread(_asked, index, (200,))
        return await asyncio.to_thread(_published, index, chart, version, digest)
    path = Path(place).expanduser()
    if place.endswith(".tgz"):
        return await asyncio.to_thread(_compared, place, path.read_bytes, digest)
    return "" if (path / "Chart.yaml").is_file() else "a folder without Chart.yaml"


def _published(index: str, chart: str, version: str, digest: str) -> str:
    """Why a repository's archive isn't what it must be."""
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
    """The address of a version's archive, as Helm finds it (helm v3.18.6, pkg/repo/index.go).

    Raises:
        ValueError: the index isn't one, or has no such version.
    """
    try:
        bound_depth(index)
        document: Any = yaml.load(index, LOADER)  # noqa: S506 # a safe one
        for entry in document["entries"][chart]:
            if str(entry["version"]).removeprefix("v") == version.removeprefix("v"):
                url = urllib.parse.urljoin(address, str(entry["urls"][0]))
                if url.startswith(("https://", "http://")):
                    return url
    except (yaml.YAMLError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError("an index that can't be read") from error
    raise ValueError(f"no {chart} {version} by http")


def _read(url: str) -> bytes:
    """What an address answers.

    Raises:
        OSError: no answer, or none of 200.
        ValueError: more than `MOST` bytes, or an address that is none.
    """
    with urllib.request.urlopen(url, timeout=ANSWER) as answer:  # noqa: S310 # http alone
        content: bytes = answer.read(MOST + 1)
    if len(content) > MOST:
        raise ValueError(f"more than {MOST} bytes")
    return content


def _asked(url: str, answers: tuple[int, ...]) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER) as answer:  # noqa: S310 # http alone
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
