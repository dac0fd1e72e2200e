"""Images of charts, by their versions: facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from components.charts.digests import facts
from components.charts.value_table import series_of

#: Holds a driver installer's pod when the driver is loaded.
PAUSE = "registry.k8s.io/pause:3.10"
NFD = "registry.k8s.io/nfd/node-feature-discovery"
#: What NFD's chart brings under ``crds/`` (0.17.3 to 0.19.0).
NFD_DEFINITIONS = (
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "nodefeatures.nfd.k8s-sigs.io",
)


@dataclass(frozen=True)
class Section:
    """One section of the operator's values with an image of its own."""

    path: str
    repository: str
    image: str
    secrets: bool
    versions: Mapping[str, str]


class UnknownImages(Exception):
    """A chart version of which no list of images is known."""


@cache
def sections() -> tuple[Section, ...]:
    """The sections of the operator's values that name an image."""
    return tuple(
        Section(**{"path": path, "secrets": True, **fact})
        for path, fact in facts()["operator"].items()
    )


def nfd_image(version: str) -> str:
    """Node Feature Discovery's image in a version of the device plugin's or operator's chart."""
    return f"{NFD}:{facts()['nfd'][series_of(version)]}"
