"""Download official releases; a file is only used if its checksum is right.

If the network is unavailable, requesting the checksum files takes at most `PATIENCE` seconds; then
the tools are built from source. The checksum files of all wanted releases are requested in
parallel. A host that does not respond in time is not contacted again.
"""

from __future__ import annotations

import hashlib
import http.client
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.machine.tool import ToolchainError

from .machine import Platform
from .pins import BASES, Pin
from .sums import SUMS

# Seconds to wait for a host to respond, and for more data during a download.
PATIENCE = 3.0
# Time limit of one download in seconds.
DOWNLOAD_LIMIT = 900.0
_ALGORITHMS = {64: "sha256", 128: "sha512"}
_CHUNK = 1 << 18


class ReleaseError(ToolchainError):
    """Error: a release can't be used; the message has the reason."""

    cure = (
        "check the network and the proxy, and run again; a tool that can't be downloaded is built "
        "from source, which takes minutes"
    )


@dataclass(frozen=True)
class Asset:
    """Official release of one tool for one platform.

    Attributes:
        pin: The tool.
        url: URL of the archive or executable.
        checksums: URL of the list of checksums.
    """

    pin: Pin
    url: str
    checksums: str

    @property
    def file_name(self) -> str:
        """Return the name of the downloaded file in the list of checksums."""
        return self.url.rpartition("/")[2]


def asset(pin: Pin, platform: Platform, bases: Mapping[str, str] = BASES) -> Asset | None:
    """Return the release of a tool for a platform; ``None`` if none is published."""
    release = pin.release
    if release is None or platform.system not in release.systems:
        return None
    values = {
        **bases,
        "version": pin.version,
        "os": platform.system,
        "arch": release.arch.get(platform.machine, platform.machine),
    }
    return Asset(pin, release.url.format(**values), release.checksums.format(**values))


def published(text: str, file_name: str) -> tuple[str, str]:
    """Return the algorithm and the checksum of a file from a list of checksums.

    Args:
        text: A list of checksums, or a text that contains only the file's checksum.
        file_name: Name of the file in the list.

    Raises:
        ReleaseError: The file is not in the list, or its checksum is neither SHA-256 nor SHA-512.
    """
    for line in text.splitlines():
        words = line.split()
        alone = len(words) == 1
        is_named = len(words) == 2 and words[1].lstrip("*").removeprefix("./") == file_name
        if not (alone or is_named) or not re.fullmatch(r"[0-9a-fA-F]+", words[0]):
            continue
        algorithm = _ALGORITHMS.get(len(words[0]))
        if algorithm is None:
            raise ReleaseError(
                f"{file_name}: the published checksum has {len(words[0])} digits; "
                "wanted SHA-256 (64) or SHA-512 (128)"
            )
        return algorithm, words[0].lower()
    raise ReleaseError(f"{file_name}: not in the published list of checksums")


@dataclass
class Downloads:
    """Downloads of one run of the toolchain.

    Attributes:
        patience: Seconds to wait for an answer of a host.
        limit: Time limit of one download in seconds.
        silent: Hosts that did not answer, with the reason; they are not contacted again.
        pinned: Pinned SHA-256 sums by file name; they have priority over published checksums.
    """

    patience: float = PATIENCE
    limit: float = DOWNLOAD_LIMIT
    silent: dict[str, str] = field(default_factory=dict)
    pinned: Mapping[str, str] = field(default_factory=lambda: SUMS)

    def checksums(self, assets: Iterable[Asset]) -> dict[str, str | ReleaseError]:
        """Request all checksum files in parallel.

        Return those that arrive in time, by URL, and an error for each of the others.
        """
        checksum_urls = {asset.checksums for asset in assets}
        answers: queue.Queue[tuple[str, str | ReleaseError]] = queue.Queue()
        # Use daemon threads, so that a thread that waits for a name server does not keep the
        # program running.
        for url in checksum_urls:
            threading.Thread(
                target=lambda url=url: answers.put((url, self._text(url))), daemon=True
            ).start()
        sums: dict[str, str | ReleaseError] = {}
        end = time.monotonic() + self.patience
        while len(sums) < len(checksum_urls):
            try:
                url, checksum_text = answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            sums[url] = checksum_text
        for url in checksum_urls - sums.keys():
            sums[url] = self._no_answer(url)
        return sums

    def fetch(
        self,
        item: Asset,
        sums: str,
        target: Path,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Download a release to a file and check its checksum.

        Args:
            item: The release.
            sums: The list of checksums.
            target: Path of the new file.
            progress: Function that is called with the bytes done and the bytes in total.

        Raises:
            ReleaseError: The download failed or the checksum is wrong; the file is deleted.
        """
        host = _host(item.url)
        if host in self.silent:
            raise ReleaseError(f"{host}: {self.silent[host]}")
        algorithm, wanted = published(sums, item.file_name)
        if item.file_name in self.pinned:
            algorithm, wanted = "sha256", self.pinned[item.file_name]
        try:
            digest = self._download(item, algorithm, target, progress)
            if digest != wanted:
                raise ReleaseError(
                    f"{item.url}: {algorithm} {digest}, wanted {wanted}: refused and deleted"
                )
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def _download(
        self, item: Asset, algorithm: str, target: Path, progress: Callable[[int, int], None]
    ) -> str:
        total = hashlib.new(algorithm)
        end = time.monotonic() + self.limit
        try:
            with _open(item.url, self.patience) as response, target.open("wb") as file:
                size = int(response.headers.get("Content-Length") or 0)
                done = 0
                while chunk := response.read1(_CHUNK):
                    file.write(chunk)
                    total.update(chunk)
                    done += len(chunk)
                    progress(done, size)
                    if time.monotonic() > end:
                        raise ReleaseError(f"{item.url}: not done in {self.limit:.0f} s")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if _timed_out(error):
                raise self._no_answer(item.url) from error
            raise ReleaseError(f"{item.url}: {_reason(error)}") from error
        if size and done != size:
            raise ReleaseError(f"{item.url}: ended after {done} of {size} bytes")
        return total.hexdigest()

    def _no_answer(self, url: str) -> ReleaseError:
        self.silent[_host(url)] = f"no answer in {self.patience:g} s"
        return ReleaseError(f"{_host(url)}: {self.silent[_host(url)]}")

    def _text(self, url: str) -> str | ReleaseError:
        try:
            with _open(url, self.patience) as response:
                return str(response.read(1 << 20).decode())
        except ReleaseError as error:
            return error
        except (OSError, http.client.HTTPException, ValueError) as error:
            if _timed_out(error):
                return self._no_answer(url)
            # The host responded, so it is not a network error: the host doesn't have the file.
            if isinstance(error, urllib.error.HTTPError):
                return ReleaseError(f"{url}: {_reason(error)}")
            return ReleaseError(f"{_host(url)}: {_reason(error)}")


class _SameSecurity(urllib.request.HTTPRedirectHandler):
    """urllib handler that follows redirects, but never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"redirect from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, patience: float) -> Any:
    if not url.startswith(("https:", "http:")):
        raise ReleaseError(f"{url}: wanted an https address")
    opener = urllib.request.build_opener(_SameSecurity)
    opener.addheaders = [("User-Agent", "gpu-cluster-toolchain")]
    return opener.open(url, timeout=patience)


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or isinstance(
        getattr(error, "reason", None), TimeoutError
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error) or type(error).__name__
