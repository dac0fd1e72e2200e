"""Fetch a Helm chart and compare it with the declared chart before the first host is changed.

Pulumi fetches even an unchanged chart only after the resources that the chart's release depends on,
and hosts are among these (pulumi-kubernetes 4.25.0, helm_release.go, Check). An unreachable
repository would leave prepared hosts without a platform. Helm verifies the digest only of an OCI
reference (helm v3.18.6, pkg/downloader/chart_downloader.go), so this module verifies the digest of
any other archive.
"""

from __future__ import annotations

import asyncio
import hashlib
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.base.nesting import LOADER, bound_depth
from gpu_cluster.charts import oci
from gpu_cluster.charts.contents import ChartContents, of_archive, of_folder
from gpu_cluster.charts.download import download, leads_to_http
from gpu_cluster.charts.own_values import refused_by_schema, unread
from gpu_rules.printable import printable

# Seconds to wait for a response. Proxies come from environment variables, as for Helm.
ANSWER = 10.0
# Maximum bytes of an index or an archive; NVIDIA's largest index is below 4 MiB.
MOST = 32 * 1024 * 1024
SHOWN = 200
"""Maximum number of characters of an address in an error message."""
FEW = 5
"""Maximum number of paths in an error message."""


@dataclass(frozen=True, kw_only=True)
class WantedChart:
    """Helm chart that a stack declares and that must be available at its source.

    Attributes:
        place: Source of the chart (`gpu_cluster.settings.chart_source`).
        chart: Name of the chart.
        version: Version of the chart; empty if the version is not compared.
        digest: Expected digest of the archive; empty if it is unknown.
        values: Values of the release. If `unknown` is True, the chart must read all of them.
        unknown: True if the stack file accepts a version whose values this program does not know.
    """

    place: str
    chart: str = ""
    version: str = ""
    digest: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    unknown: bool = False


@dataclass(frozen=True)
class FetchedChart:
    """Result of fetching a chart.

    Attributes:
        problem: Why the chart can't be used; empty if no problem was found.
        contents: Content of the chart; None if it could not be read or the registry needs a login.
    """

    problem: str = ""
    contents: ChartContents | None = None


async def fetched(wanted: WantedChart) -> FetchedChart:
    """Fetch a chart from its source and check its name, version and, if unknown, its values.

    Helm installs a chart folder of any version, and ignores values that the chart does not read.
    This function reports both as problems.
    """
    try:
        contents = await asyncio.to_thread(_contents, wanted)
    except _NotUsableError as error:
        return FetchedChart(str(error))
    problem = _difference(wanted, contents) if contents else ""
    if contents is None and wanted.unknown:
        problem = "a registry that gives the chart only after a login, so its values are unknown"
    return FetchedChart(problem, contents)


class _NotUsableError(Exception):
    """A chart can't be fetched or read; the message contains the reason."""


def _contents(wanted: WantedChart) -> ChartContents | None:
    place = wanted.place
    if place.startswith("oci://"):
        return _of_registry(wanted)
    if place.startswith(("https://", "http://")):
        # The index file is described in the Helm documentation, "The Chart Repository Guide".
        index = f"{place.rstrip('/')}/index.yaml"
        try:
            url = _archive(_read(index), index, wanted.chart, wanted.version)
        except (OSError, ValueError) as error:
            raise _NotUsableError(
                f"no chart from {index} ({printable(str(error), SHOWN)})"
            ) from None
        return _unpacked(wanted, url, lambda: _read(url))
    path = Path(place).expanduser()
    if place.endswith(".tgz"):
        return _unpacked(wanted, place, path.read_bytes)
    if not path.is_dir():
        raise _NotUsableError("no such folder")
    if not (path / "Chart.yaml").is_file():
        raise _NotUsableError("a folder without Chart.yaml")
    return _opened(lambda: of_folder(path))


def _opened(read: Callable[[], ChartContents]) -> ChartContents:
    try:
        return read()
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"a chart that can't be read ({reason})") from None


def _unpacked(wanted: WantedChart, place: str, read: Callable[[], bytes]) -> ChartContents:
    try:
        content = read()
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"no archive at {printable(place, SHOWN)} ({reason})") from None
    given = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if wanted.digest and given != wanted.digest:
        raise _NotUsableError(f"an archive with {given} instead of {wanted.digest}")
    return _opened(lambda: of_archive(content))


def _of_registry(wanted: WantedChart) -> ChartContents | None:
    """Return the chart of an OCI registry; None if the registry requires a login for it."""
    repository, _, digest = wanted.place.removeprefix("oci://").partition("@")
    host, _, name = repository.partition("/")
    try:
        content = oci.chart(f"https://{host}", name, digest or wanted.version)
    except oci.LoginRequiredError:
        return None
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"no {wanted.version} at {wanted.place} ({reason})") from None
    return _opened(lambda: of_archive(content))


def _difference(wanted: WantedChart, contents: ChartContents) -> str:
    """Return why a fetched chart can't be used; empty if it is the declared chart and fits."""
    same = contents.version.removeprefix("v") == wanted.version.removeprefix("v")
    if wanted.version and (contents.name != wanted.chart or not same):
        found = printable(f"{contents.name} {contents.version}", SHOWN)
        return f"the chart {found} instead"
    if not wanted.unknown:
        return ""
    if paths := sorted(unread(contents, wanted.values)):
        more = f" and {len(paths) - FEW} more" if len(paths) > FEW else ""
        return f"values that this chart does not read: {', '.join(paths[:FEW])}{more}"
    if reason := refused_by_schema(contents, wanted.values):
        return f"values that the chart's schema rejects ({reason})"
    return ""


def _archive(index: bytes, address: str, chart: str, version: str) -> str:
    """Return the archive URL of a chart version in an index (helm v3.18.6, pkg/repo/index.go).

    Raises:
        ValueError: The index is invalid or lacks the version.
    """
    try:
        bound_depth(index)
        document: Any = yaml.load(index, LOADER)  # noqa: S506 # LOADER is a safe loader
        for entry in document["entries"][chart]:
            if str(entry["version"]).removeprefix("v") == version.removeprefix("v"):
                url = urllib.parse.urljoin(address, str(entry["urls"][0]))
                if leads_to_http(address, url):
                    raise ValueError(f"{chart} {version} only by http, from an index by https")
                if url.startswith(("https://", "http://")):
                    return url
    except (yaml.YAMLError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError("an index that can't be read") from error
    raise ValueError(f"no {chart} {version} by http")


def _read(url: str) -> bytes:
    """Return the content at a URL; raise errors as `download`."""
    return download(urllib.request.Request(url), ANSWER, MOST)  # noqa: S310 # http and https only
