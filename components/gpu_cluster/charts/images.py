"""Container images that Helm charts deploy, by chart version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpu_cluster.charts.digests import facts
from gpu_cluster.charts.value_table import series_of

# Image of the container that keeps a driver installer's pod running after the driver is loaded.
PAUSE = "registry.k8s.io/pause:3.10"
NFD = "registry.k8s.io/nfd/node-feature-discovery"
# CustomResourceDefinitions in the folder `crds/` of NFD's chart (0.17.3 to 0.19.0).
NFD_DEFINITIONS = (
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "nodefeatures.nfd.k8s-sigs.io",
)


@dataclass(frozen=True)
class Section:
    """A section of the GPU Operator's chart values that sets an image.

    Attributes:
        path: Path of the section in the chart's values.
        repository: Default registry and path of the image.
        image: Default name of the image.
        secrets: True if the section has the key `imagePullSecrets`.
        versions: Tag of the image by chart version.
    """

    path: str
    repository: str
    image: str
    secrets: bool
    versions: Mapping[str, str]


class UnknownImages(Exception):
    """The images of a chart version are not known."""


@cache
def sections() -> tuple[Section, ...]:
    """Return the sections of the GPU Operator's chart values that set an image."""
    return tuple(
        Section(**{"path": path, "secrets": True, **fact})
        for path, fact in facts()["operator"].items()
    )


def nfd_image(version: str) -> str:
    """Return Node Feature Discovery's image for a version of the device plugin or GPU Operator.

    Raises:
        UnknownImages: This version's images are not known.
    """
    tag = facts()["nfd"].get(series_of(version))
    if tag is None:
        raise UnknownImages(
            f"version {version}: found a chart whose subcharts are not known; wanted: a version of "
            f"{', '.join(facts()['nfd'])}; cure: take one of them"
        )
    return f"{NFD}:{tag}"
