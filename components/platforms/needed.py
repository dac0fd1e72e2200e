"""Which images and charts a configuration needs, and where they are taken from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from components.charts.digests import digest
from components.charts.images import PAUSE, UnknownImages
from components.charts.source import is_own, location, wanted_digest
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster


@dataclass(frozen=True)
class Image:
    """One image. `name`: where it is taken from; `upstream`: where its maker publishes it.

    `digest`: empty where it is not known. `note`: what the name leaves open.
    """

    name: str
    upstream: str
    digest: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """One chart: its name, version, and where it is taken from.

    `digest`: SHA-256 of the archive, as its makers publish it; empty where it is not known.
    """

    name: str
    version: str
    source: str
    digest: str = ""


def images(cluster: Cluster) -> tuple[Image, ...]:
    """Every image, once, in the order in which they are first needed.

    Raises:
        UnknownImages: the chart's version is none of those whose images are known.
    """
    platform = platform_of(cluster)
    upstream = (*platform.images(cluster), *_beside(cluster), cluster.validation.image)
    return tuple(_image(cluster, image) for image in dict.fromkeys(upstream))


def registries(cluster: Cluster) -> tuple[str, ...]:
    """``host:port`` of each registry; none where the chart's images are not known.

    Names without a host are Docker Hub's (distribution/reference, normalize.go), which answers at
    another name than its own.
    """
    try:
        names = [image.name for image in images(cluster)]
    except UnknownImages:
        return ()
    hosts = dict.fromkeys(map(_registry, names))
    return tuple(host if ":" in host else f"{host}:443" for host in hosts)


def _registry(name: str) -> str:
    first, slash, _ = name.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return first if named and first != "docker.io" else "registry-1.docker.io"


def charts(cluster: Cluster) -> tuple[Chart, ...]:
    """The charts of the platform; none where the project's own is used."""
    platform = platform_of(cluster)
    if is_own(platform.repository):
        return ()
    version = platform.version(cluster)
    given = (cluster.charts, platform.chart, platform.repository, version)
    return (Chart(platform.chart, version, location(*given), wanted_digest(*given)),)


def _image(cluster: Cluster, upstream: str) -> Image:
    own = cluster.driver.image_repository is not None and upstream.startswith(
        cluster.driver.image_repository
    )
    name = upstream if own else cluster.registry.rewritten(upstream)
    reference, _, note = upstream.partition(" ")
    return Image(name.partition(" ")[0], reference, digest(reference), note)


def _beside(cluster: Cluster) -> Iterator[str]:
    """Images of what stands beside the platform: the driver's installers, tests, the exporter."""
    if cluster.driver.managed_by_daemonset:
        installer = cluster.driver_installer
        yield from (installer.image_of(pool.name) for pool in cluster.pools if pool.gpus_per_node)
        yield PAUSE
    yield from (test.image for test in cluster.validation.tests.values())
    if cluster.monitoring and platform_of(cluster).exporter is None:
        yield cluster.monitoring.exporter_image
