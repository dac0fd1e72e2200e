"""Packages of real repositories as graphs: names, versions, relations, streams and sources.

A graph is one file in `package_graphs/`. Its rows have patterns for driver versions, kernels and
distributions, so that a package is written once for all versions. On a simulated host the files of
a package are fakes; its name, version and relations are those of the real package.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster_lab.simulator.hosts import contents, streams
from gpu_cluster_lab.simulator.hosts.model import HostError
from gpu_cluster_lab.simulator.hosts.packages import Package

FOLDER = Path(__file__).with_name("package_graphs")
UNVERIFIED = "unverified"
"""Source of a package that nobody has verified: it is never built.

No other package may depend on it.
"""


@dataclass(frozen=True)
class Row:
    """Row of a package graph: one package for each version that the row's pattern matches."""

    repository: str
    name: str
    version: str
    source: tuple[str, ...]
    branches: str = ".."
    drivers: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    module: str = ""
    built: str = ""
    streams: tuple[str, ...] = ()

    def has(self, driver: str) -> bool:
        """Check that the repository has this package for a driver version.

        A package exists for a range of driver branches (`560..580`, `590..`), or only for the
        listed driver versions.
        """
        if self.drivers:
            return driver in self.drivers
        first, _, last = self.branches.partition("..")
        branch = int(driver.split(".")[0])
        return int(first or 0) <= branch <= int(last or 9999)


@dataclass(frozen=True)
class Graph:
    """Package graph: repositories of one distribution, or of one vendor for all distributions."""

    name: str
    form: str
    kernels: tuple[str, ...]
    versions: tuple[str, ...]
    sources: Mapping[str, str]
    rows: tuple[Row, ...]

    def packages(
        self,
        repository: str,
        versions: Sequence[str] = (),
        kernels: Sequence[str] = (),
        dist: str = "el9",
    ) -> list[Package]:
        """Return the packages of one repository.

        Args:
            repository: Name of the repository in the graph, such as `cuda`, `archive` or `epel`.
            versions: Versions of the software that the graph is for (such as the driver); empty
            for all.
            kernels: Kernel releases; empty for all in the graph.
            dist: Distribution tag of RPM packages.

        Raises:
            HostError: The graph has no such version or kernel.
        """
        for mapping, known_versions in ((versions, self.versions), (kernels, self.kernels)):
            unknown = set(mapping) - set(known_versions)
            if unknown:
                raise HostError(
                    f"graph {self.name}: found {sorted(unknown)}; wanted of {known_versions}"
                )
        packages = {}
        for row in self.rows:
            if row.repository != repository or UNVERIFIED in row.source:
                continue
            for words in self._words(row, versions or self.versions, kernels or self.kernels, dist):
                package = self._package(row, words)
                packages[package.name, package.version] = package
        return list(packages.values())

    def modules(self, versions: Sequence[str] = (), dist: str = "el9") -> str:
        """Return the text of the repository's `modules.yaml`, with the module streams.

        The streams are those of NVIDIA's genmodules.py.
        """
        rows = [(row.name, row) for row in self.rows if row.streams]
        members = [
            (self._package(row, words), row.streams, words["version"])
            for _, row in rows
            for words in self._words(row, versions or self.versions, self.kernels, dist)
        ]
        return streams.document(members)

    def _words(
        self, row: Row, versions: Sequence[str], kernels: Sequence[str], dist: str
    ) -> Iterator[dict[str, str]]:
        text = " ".join((row.name, row.version, *row.depends))
        for version in versions:
            if not row.has(version):
                continue
            for kernel in kernels if "{kernel" in text else ("",):
                yield {
                    "version": version,
                    "branch": version.split(".")[0],
                    "kernel": kernel,
                    "kernel_short": kernel.rpartition(".")[0].rpartition(".")[0],
                    "kernel_version": _kernel_version(kernel),
                    "dist": dist,
                }

    def _package(self, row: Row, words: Mapping[str, str]) -> Package:
        def filled(texts: Sequence[str]) -> tuple[str, ...]:
            return tuple(text.format(**words) for text in texts)

        package_contents = contents.of(row.holds, row.module, row.built, words)
        return Package(
            row.name.format(**words),
            row.version.format(**words),
            package_contents.files,
            depends=filled(row.depends),
            provides=filled(row.provides),
            conflicts=filled(row.conflicts),
            installed=package_contents.installed,
            removed=package_contents.removed,
        )


def _kernel_version(kernel: str) -> str:
    """Return the version of the package that contains a kernel release.

    `6.8.0-71-generic` is packaged as 6.8.0-71.71, `6.1.0-40-amd64` as 6.1.0-40-1.
    """
    if kernel.endswith("x86_64"):
        return kernel.rpartition(".")[0]
    number, _, flavor = kernel.rpartition("-")
    return f"{number}.{number.rpartition('-')[2]}" if flavor == "generic" else f"{number}-1"


@functools.cache
def load(name: str) -> Graph:
    """Load the package graph in `package_graphs/<name>.yaml`.

    Raises:
        HostError: A row has an unknown field, or a source that is not listed.
    """
    document = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    rows = tuple(_read_row(name, entry, document["sources"]) for entry in document["packages"])
    return Graph(
        name,
        document["form"],
        tuple(document.get("kernels", ())),
        tuple(document.get("drivers") or document["versions"]),
        document["sources"],
        rows,
    )


def _read_row(graph: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Row:
    row = dict(entry)
    unknown = row.keys() - {field.name for field in dataclasses.fields(Row)}
    source = row.pop("source", None) or ()
    source = (source,) if isinstance(source, str) else tuple(source)
    missing = [name for name in source if name not in sources and name != UNVERIFIED]
    if unknown or missing or not source:
        raise HostError(
            f"graph {graph}, {entry.get('name')}: found members {sorted(unknown)}, sources "
            f"{missing or list(source)}; wanted known members and listed sources"
        )
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Row(**{**row, **lists}, source=source)


def names(relation: str) -> list[str]:
    """Return the package names that a relation accepts: `a (>= 1) | b` gives a, b."""
    return [re.split(r"[\s(<=>]", word.strip(), maxsplit=1)[0] for word in relation.split("|")]
