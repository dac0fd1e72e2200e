"""``make images STACK=…``: every image and chart that a stack needs, for a site without internet.

Two tables on a terminal; one name a line, ``<upstream> <where it is taken from>``, to a pipe, as
tools that copy images read it.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table

from components.charts.images import UnknownImages
from components.platforms.needed import Chart, Image, charts
from components.platforms.needed import images as needed
from components.settings.stack_file import load_stack_file
from config.problem import ConfigError


def tables(images: tuple[Image, ...], releases: tuple[Chart, ...]) -> list[Table]:
    """What a person reads."""
    pictures = Table("image", "taken from", "digest", "note", title="images", title_justify="left")
    for image in images:
        source = image.name if image.name != image.upstream else "its own registry"
        pictures.add_row(image.upstream, source, image.digest[:19] or "not known", image.note)
    packages = Table("chart", "version", "taken from", title="charts", title_justify="left")
    for chart in releases:
        packages.add_row(chart.name, chart.version, chart.source)
    return [pictures, packages]


def lines(images: tuple[Image, ...]) -> list[str]:
    """What a program reads: the image, by its digest where that is known, and its new name."""
    return [
        f"# {image.upstream}: {image.note}"
        if image.note
        else f"{image.upstream}{f'@{image.digest}' if image.digest else ''} {image.name}"
        for image in images
    ]


#: How to check who made an image, by its registry. NVIDIA's are signed with a key of its own that
#: it hands out on another way, without provenance (NVIDIA/gpu-operator issue 2432); Kubernetes' by
#: its release account (Kubernetes documentation, "Verify Signed Kubernetes Artifacts").
CHECKS = {
    "nvcr.io/": "cosign verify --key NVIDIA.pub {image}",
    "registry.k8s.io/": (
        "cosign verify {image} --certificate-identity "
        "krel-trust@k8s-releng-prod.iam.gserviceaccount.com "
        "--certificate-oidc-issuer https://accounts.google.com"
    ),
}


def checks(images: tuple[Image, ...]) -> list[str]:
    """A comment for each image: how its signature is checked before it is copied."""
    problems = []
    for image in images:
        name = f"{image.upstream}{f'@{image.digest}' if image.digest else ''}"
        known = [text for registry, text in CHECKS.items() if image.upstream.startswith(registry)]
        how = (
            known[0].format(image=name) if known else "no signature of it is known; pin its digest"
        )
        problems.append(f"# check {image.upstream}: {how}")
    return problems


def chart_checks(releases: tuple[Chart, ...]) -> list[str]:
    """A comment for each chart: how its archive is compared with what its makers publish."""
    result = []
    for chart in releases:
        how = "its makers publish no digest; note the archive's own when you copy it"
        if chart.digest and chart.source.startswith("https://"):
            archive = f"{chart.name}-{chart.version}.tgz"
            how = (
                f"helm pull {chart.name} --repo {chart.source} --version {chart.version} && "
                f"echo '{chart.digest.removeprefix('sha256:')}  {archive}' | sha256sum --check"
            )
        result.append(f"# check chart {chart.name} {chart.version}: {how}")
    return result


def main() -> int:
    """Print the lists for the stack that `STACK` names."""
    try:
        cluster = load_stack_file(f"Pulumi.{os.environ.get('STACK', 'dev')}.yaml")
        images, releases = needed(cluster), charts(cluster)
    except (ConfigError, UnknownImages) as error:
        print(error, file=sys.stderr)
        return 1
    if sys.stdout.isatty():
        console = Console()
        for table in tables(images, releases):
            console.print(table)
        for line in [*checks(images), *chart_checks(releases)]:
            console.print(line, highlight=False, soft_wrap=True)
    else:
        print("\n".join(lines(images)))
        for chart in releases:
            print(f"# chart {chart.name} {chart.version} {chart.source}")
        print("\n".join([*checks(images), *chart_checks(releases)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
