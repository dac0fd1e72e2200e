"""List the versions of packages that a stack's declared package repositories have.

`gpu-cluster images --packages PATTERN` prints them, so that a version can be chosen before it is
declared. The repositories' metadata is only read here: hosts verify its signature when they
install. Sources of the formats: Debian, "DebianRepository/Format" (Packages); createrepo_c
(repomd.xml, primary.xml).
"""

from __future__ import annotations

import fnmatch
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.error import URLError
from urllib.parse import urljoin
from urllib.request import Request

from gpu_cluster.base.model import Model
from gpu_cluster.charts.download import download, leads_to_http
from gpu_cluster.settings.hosts.repository import Repositories, Repository
from gpu_rules.faults import PartError
from gpu_rules.printable import printable

ARCHITECTURE = "amd64"
"""Debian's name of the architecture whose packages are listed; of RPM packages it is x86_64."""
LIMIT = 20
"""Time limit of one connection in seconds."""
LARGEST = 256 * 2**20
"""Largest index that is read, in bytes after decompression."""
SHOWN = 20
"""Maximum number of versions of one package that are listed, the newest first."""
_PRIMARY = re.compile(r'<location href="([^"<>\s]{1,500}primary\.xml\.gz)"')
_ENTRY = re.compile(
    r"<name>([^<\s]{1,200})</name>|<arch>([^<\s]{1,40})</arch>"
    r'|<version epoch="\d{0,9}" ver="([^"]{1,100})" rel="([^"]{0,100})"'
)
_PARTS = re.compile(r"(\d+)|([A-Za-z]+|~)")


@dataclass(frozen=True)
class Listed:
    """Versions of a package in one repository, the newest first.

    Attributes:
        name: Name of the package; empty if the repository could not be read.
        versions: Versions with their releases, as they are declared; at most `SHOWN`.
        place: URL of the repository.
        note: Why the repository could not be read; empty if it was.
    """

    name: str
    versions: tuple[str, ...]
    place: str
    note: str = ""


def repositories(model: object) -> Iterator[tuple[str, Repository]]:
    """Yield each declared repository below a model, with `apt` or `dnf`; the same one once."""
    seen: set[tuple[str, str, str, str]] = set()
    waiting: list[object] = [model]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Repositories):
            for manager in ("apt", "dnf"):
                repository = getattr(part, manager)
                if repository is None:
                    continue
                key = (manager, repository.url, repository.suite, repository.components)
                if key not in seen:
                    seen.add(key)
                    yield manager, repository
        elif isinstance(part, Model):
            waiting += [getattr(part, name) for name in type(part).model_fields]
        elif isinstance(part, list | tuple):
            waiting += part


def listing(model: object, pattern: str) -> Iterator[Listed]:
    """Yield the packages whose names match a shell pattern, repository by repository."""
    for manager, repository in repositories(model):
        try:
            found = _of_apt(repository) if manager == "apt" else _of_dnf(repository)
            versions: dict[str, set[str]] = {}
            for name, version in found:
                if fnmatch.fnmatchcase(name, pattern):
                    versions.setdefault(name, set()).add(version)
        except PartError as error:
            yield Listed("", (), repository.url, str(error))
            continue
        for name in sorted(versions):
            newest = sorted(versions[name], key=_order, reverse=True)
            yield Listed(name, tuple(newest[:SHOWN]), repository.url)


def _of_apt(repository: Repository) -> Iterator[tuple[str, str]]:
    base = f"{repository.url.rstrip('/')}/"
    flat = not repository.components
    folders = (
        [urljoin(base, repository.suite.strip("/") + "/") if repository.suite != "/" else base]
        if flat
        else [
            f"{base}dists/{repository.suite}/{component}/binary-{ARCHITECTURE}/"
            for component in repository.components.split()
        ]
    )
    for folder in folders:
        name = ""
        for line in _read(f"{folder}Packages.gz").splitlines():
            key, _, value = line.partition(": ")
            if key == "Package":
                name = value
            elif key == "Version" and name:
                yield name, value


def _of_dnf(repository: Repository) -> Iterator[tuple[str, str]]:
    base = f"{repository.url.rstrip('/')}/"
    primary = _PRIMARY.search(_read(f"{base}repodata/repomd.xml"))
    if primary is None:
        raise PartError("its repomd.xml names no primary.xml.gz")
    name = arch = ""
    address = urljoin(base, primary[1])
    if leads_to_http(base, address):
        raise PartError("its repomd.xml leads from https to http")
    for entry in _ENTRY.finditer(_read(address)):
        named, built, version, release = entry.groups()
        if named:
            name, arch = named, ""
        elif built:
            arch = built
        elif name and arch in ("x86_64", "noarch"):
            yield name, f"{version}-{release}"


def _read(address: str) -> str:
    """Return a file as text, decompressed if its name ends with `.gz`.

    Raises:
        PartError: There is no such file, no connection, or it is larger than `LARGEST`.
    """
    try:
        # The schemes are those that a repository's URL may have: https, http and file.
        content = download(Request(address), LIMIT, LARGEST)  # noqa: S310
        if address.endswith(".gz"):
            content = zlib.decompressobj(wbits=31).decompress(content, LARGEST + 1)
    except (URLError, OSError, ValueError, zlib.error) as error:
        raise PartError(f"{address}: {printable(str(error), 200)}") from None
    if len(content) > LARGEST:
        raise PartError(f"{address}: more than {LARGEST} bytes")
    text: str = content.decode("utf-8", errors="replace")
    return text


def _order(version: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts versions by their numbers; `~` comes before the end of a version."""
    return [
        (1, int(number[:18]), "") if number else (-1 if word == "~" else 0, 0, word)
        for number, word in _PARTS.findall(version)
    ] + [(0, 0, "")]
