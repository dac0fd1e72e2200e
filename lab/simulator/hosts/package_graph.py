"""The packages of real repositories as graphs: names, versions, edges, streams and their sources.

A graph is one file of ``package_graphs/``. It knows drivers, kernels and distributions by patterns,
so a package is written once for all versions that have it. What the packages hold on a simulated
host are fakes; what they are called, need, provide and exclude is upstream's.
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

from lab.simulator.hosts import contents, streams
from lab.simulator.hosts.model import HostError
from lab.simulator.hosts.packages import Package

FOLDER = Path(__file__).with_name("package_graphs")
UNVERIFIED = "unverified"
"""The source of what nobody has shown: it is never built, and nothing may need it."""


@dataclass(frozen=True)
class Row:
    """One line of a graph: a package for each version that its pattern names."""

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
        """Whether the package exists for that driver's branch (``560..580``, ``590..``), or for
        that driver alone.
        """
        if self.drivers:
            return driver in self.drivers
        first, _, last = self.branches.partition("..")
        branch = int(driver.split(".")[0])
        return int(first or 0) <= branch <= int(last or 9999)


@dataclass(frozen=True)
class Graph:
    """The repositories of one distribution, or of one vendor for all of them."""

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
        """What one repository holds.

        Args:
            repository: its name in the graph, such as ``cuda``, ``archive`` or ``epel``.
            versions: of the driver (or what the graph is about); all that it knows where empty.
            kernels: releases; all that the graph knows where empty.
            dist: the RPM distribution's mark.

        Raises:
            HostError: the graph knows no such version or kernel.
        """
        for mapping, known in ((versions, self.versions), (kernels, self.kernels)):
            unknown = set(mapping) - set(known)
            if unknown:
                raise HostError(f"graph {self.name}: found {sorted(unknown)}; wanted of {known}")
        packages = {}
        for row in self.rows:
            if row.repository != repository or UNVERIFIED in row.source:
                continue
            for words in self._words(row, versions or self.versions, kernels or self.kernels, dist):
                package = self._package(row, words)
                packages[package.name, package.version] = package
        return list(packages.values())

    def modules(self, versions: Sequence[str] = (), dist: str = "el9") -> str:
        """The repository's ``modules.yaml``: streams as NVIDIA's genmodules.py makes them."""
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

        held = contents.of(row.holds, row.module, row.built, words)
        return Package(
            row.name.format(**words),
            row.version.format(**words),
            held.files,
            depends=filled(row.depends),
            provides=filled(row.provides),
            conflicts=filled(row.conflicts),
            installed=held.installed,
            removed=held.removed,
        )


def _kernel_version(kernel: str) -> str:
    """``6.8.0-71-generic`` is packaged as 6.8.0-71.71, ``6.1.0-40-amd64`` as 6.1.0-40-1."""
    if kernel.endswith("x86_64"):
        return kernel.rpartition(".")[0]
    number, _, flavor = kernel.rpartition("-")
    return f"{number}.{number.rpartition('-')[2]}" if flavor == "generic" else f"{number}-1"


@functools.cache
def load(name: str) -> Graph:
    """The graph of ``package_graphs/<name>.yaml``.

    Raises:
        HostError: an unknown member, or a source that is not listed.
    """
    document = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    rows = tuple(_row(name, entry, document["sources"]) for entry in document["packages"])
    return Graph(
        name,
        document["form"],
        tuple(document.get("kernels", ())),
        tuple(document.get("drivers") or document["versions"]),
        document["sources"],
        rows,
    )


def _row(graph: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Row:
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
    """The packages that a relation accepts: ``a (>= 1) | b`` is a, b."""
    return [re.split(r"[\s(<=>]", word.strip(), maxsplit=1)[0] for word in relation.split("|")]
