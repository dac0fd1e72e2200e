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
from gpu_rules.faults import PartError
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


async def fetched(chart: WantedChart) -> FetchedChart:
    """Fetch a chart from its source and check its name, version and, if unknown, its values.

    Helm installs a chart folder of any version, and ignores values that the chart does not read.
    This function reports both as problems.
    """
    try:
        contents = await asyncio.to_thread(_fetch_contents, chart)
    except _NotUsableError as error:
        return FetchedChart(str(error))
    problem = _describe_difference(chart, contents) if contents else ""
    if contents is None and chart.unknown:
        problem = "a registry that gives the chart only after a login, so its values are unknown"
    return FetchedChart(problem, contents)


class _NotUsableError(PartError):
    """A chart can't be fetched or read; the message contains the reason."""


def _fetch_contents(desired: WantedChart) -> ChartContents | None:
    place = desired.place
    if place.startswith("oci://"):
        return _of_registry(desired)
    if place.startswith(("https://", "http://")):
        # The index file is described in the Helm documentation, "The Chart Repository Guide".
        index = f"{place.rstrip('/')}/index.yaml"
        try:
            url = _archive_url(_download_content(index), index, desired.chart, desired.version)
        except (OSError, ValueError) as error:
            raise _NotUsableError(
                f"no chart from {index} ({printable(str(error), SHOWN)})"
            ) from None
        return _unpack_archive(desired, url, lambda: _download_content(url))
    path = Path(place).expanduser()
    if place.endswith(".tgz"):
        return _unpack_archive(desired, place, path.read_bytes)
    if not path.is_dir():
        raise _NotUsableError("no such folder")
    if not (path / "Chart.yaml").is_file():
        raise _NotUsableError("a folder without Chart.yaml")
    return _open_chart(lambda: of_folder(path))


def _open_chart(read_contents: Callable[[], ChartContents]) -> ChartContents:
    try:
        return read_contents()
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"a chart that can't be read ({reason})") from None


def _unpack_archive(
    chart: WantedChart, place: str, read_archive: Callable[[], bytes]
) -> ChartContents:
    try:
        content = read_archive()
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"no archive at {printable(place, SHOWN)} ({reason})") from None
    actual_digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if chart.digest and actual_digest != chart.digest:
        raise _NotUsableError(f"an archive with {actual_digest} instead of {chart.digest}")
    return _open_chart(lambda: of_archive(content))


def _of_registry(desired: WantedChart) -> ChartContents | None:
    """Return the chart of an OCI registry; None if the registry requires a login for it."""
    repository, _, digest = desired.place.removeprefix("oci://").partition("@")
    host, _, name = repository.partition("/")
    try:
        content = oci.chart(f"https://{host}", name, digest or desired.version)
    except oci.LoginRequiredError:
        return None
    except (OSError, ValueError) as error:
        reason = printable(str(error), SHOWN)
        raise _NotUsableError(f"no {desired.version} at {desired.place} ({reason})") from None
    return _open_chart(lambda: of_archive(content))


def _describe_difference(desired: WantedChart, contents: ChartContents) -> str:
    """Return why a fetched chart can't be used; empty if it is the declared chart and fits."""
    same = contents.version.removeprefix("v") == desired.version.removeprefix("v")
    if desired.version and (contents.name != desired.chart or not same):
        fetched_name = printable(f"{contents.name} {contents.version}", SHOWN)
        return f"the chart {fetched_name} instead"
    if not desired.unknown:
        return ""
    if paths := sorted(unread(contents, desired.values)):
        more = f" and {len(paths) - FEW} more" if len(paths) > FEW else ""
        return f"values that this chart does not read: {', '.join(paths[:FEW])}{more}"
    if reason := refused_by_schema(contents, desired.values):
        return f"values that the chart's schema rejects ({reason})"
    return ""


def _archive_url(index: bytes, address: str, chart: str, version: str) -> str:
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
                    raise PartError(
                        f"an index at an https address that offers {chart} {version} only by http"
                    )
                if url.startswith(("https://", "http://")):
                    return url
    except (yaml.YAMLError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise PartError("an index that can't be read") from error
    raise PartError(f"an index without an address of {chart} {version}")


def _download_content(url: str) -> bytes:
    """Return the content at a URL; raise errors as `download`."""
    return download(urllib.request.Request(url), ANSWER, MOST)  # noqa: S310 # http and https only
