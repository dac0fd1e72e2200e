"""Versions of the software on a cluster's nodes, with their ends of support. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.engine import parse_engine
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.settings.support import TITLES, end
from gpu_rules.printable import printable

SYSTEMS = (
    ("ubuntu", re.compile(r"Ubuntu (\d{1,3}\.\d{1,3})")),
    ("debian", re.compile(r"Debian GNU/Linux (\d{1,3})")),
    ("rhel", re.compile(r"(?:Red Hat Enterprise Linux|Rocky Linux|AlmaLinux|Oracle Linux"
                        r"(?: Server)?) (\d{1,3})")),
    ("amzn", re.compile(r"Amazon Linux (\d{1,4})")),
)  # fmt: skip
"""Beginning of a Node's `osImage` by system (kubelet: `PRETTY_NAME` of /etc/os-release)."""


@dataclass(frozen=True, kw_only=True)
class Software:
    """One version of a software product, with its end of support.

    Attributes:
        title: Name of the software, as users read it.
        nodes: Names of the nodes that run this version. Empty: only the stack file declares it.
        last: Last day of support. None: the table of support dates lacks this version.
        source: Source of that date.
        ended: Whether the support has ended.
    """

    title: str
    version: str
    nodes: tuple[str, ...] = ()
    last: date | None = None
    source: str = ""
    ended: bool = False


def software_of(nodes: Iterable[Json], drivers: Iterable[str], today: date) -> tuple[Software, ...]:
    """Return the versions that nodes run and that the stack file declares, by software.

    Args:
        nodes: Node objects.
        drivers: Driver versions that the stack file declares.
        today: Current date; a version whose last day is before this date is unsupported.
    """
    nodes_of_versions: dict[tuple[str, str], list[str]] = {}
    nodes_of_versions |= {("driver", version): [] for version in drivers}
    for node in nodes:
        for component, version in _versions(node):
            nodes_of_versions.setdefault((component, version), []).append(
                printable(node["metadata"]["name"])
            )
    return tuple(
        _software(component, version, tuple(nodes_of_versions[component, version]), today)
        for component, version in sorted(
            nodes_of_versions, key=lambda key: (_order(key[0]), key[1])
        )
    )


def _versions(node: Json) -> Iterator[tuple[str, str]]:
    info = node.get("status", {}).get("nodeInfo") or {}
    if kubelet := str(info.get("kubeletVersion") or ""):
        yield "kubernetes", kubelet
    engine, version = parse_engine(info.get("containerRuntimeVersion"))
    if engine == "containerd" and version:
        yield engine, version
    if driver := str((node["metadata"].get("labels") or {}).get(DRIVER_LABEL) or ""):
        yield "driver", driver
    image = str(info.get("osImage") or "")
    for component, pattern in SYSTEMS:
        if match := pattern.match(image):
            yield component, match[1]


def _order(component: str) -> int:
    return list(TITLES).index(component)


def _software(component: str, version: str, nodes: tuple[str, ...], today: date) -> Software:
    end_of_life = end(component, version)
    return Software(
        title="NVIDIA driver" if component == "driver" else TITLES[component],
        version=printable(version, 80),
        nodes=nodes,
        last=end_of_life.last if end_of_life else None,
        source=end_of_life.source if end_of_life else "",
        ended=end_of_life is not None and end_of_life.last < today,
    )
