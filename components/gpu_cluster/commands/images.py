"""Run `gpu-cluster images`: list every image and Helm chart that a stack needs.

With `--packages PATTERN` it lists versions of packages in the declared repositories instead.

The list is for a site without internet access. A terminal gets two tables. A pipe gets one image
per line, ``<upstream> <location that the cluster pulls from>``, as tools that copy images read it.
If cosign is on PATH, it verifies the signatures. For each image the list states whether its
signature was verified, and if not, why. The exit code is 1 if a verification failed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.package_versions import listing
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.platforms.needed import Chart, Image, charts
from gpu_cluster.platforms.needed import images as needed
from gpu_rules.facts.floors import of_images
from gpu_rules.printable import printable


def tables(images: tuple[Image, ...], releases: tuple[Chart, ...]) -> list[Table]:
    """Return the two tables for a terminal: images and charts."""
    pictures = Table("image", "taken from", "digest", "note", title="images", title_justify="left")
    for image in images:
        source = image.name if image.name != image.upstream else "its own registry"
        pictures.add_row(image.upstream, source, image.digest[:19] or "not known", image.note)
    packages = Table("chart", "version", "taken from", title="charts", title_justify="left")
    for chart in releases:
        packages.add_row(chart.name, chart.version, chart.source)
    return [pictures, packages]


def lines(images: tuple[Image, ...]) -> list[str]:
    """Return the lines for a program: upstream image (with its digest, if known) and location."""
    return [
        f"# {image.upstream}: {image.note}"
        if image.note
        else f"{image.upstream}{f'@{image.digest}' if image.digest else ''} {image.name}"
        for image in images
    ]


# Arguments for cosign by the image's registry. NVIDIA signs its images with a key that NGC
# publishes, without an entry in a transparency log (NGC Catalog User Guide, "Finding NVIDIA's
# Public Key"; NVIDIA/gpu-operator issue 2432). The images of Kubernetes are signed by its release
# account (Kubernetes documentation, "Verify Signed Kubernetes Artifacts").
SIGNERS = {
    "nvcr.io/": (
        "--key=https://api.ngc.nvidia.com/v2/catalog/containers/public-key",
        "--insecure-ignore-tlog",
    ),
    "registry.k8s.io/": (
        "--certificate-identity=krel-trust@k8s-releng-prod.iam.gserviceaccount.com",
        "--certificate-oidc-issuer=https://accounts.google.com",
    ),
}
LIMIT = 120
"""Time limit for verifying one image, in seconds."""


@dataclass(frozen=True)
class Check:
    """The result of verifying an image's signature.

    Attributes:
        text: Result as a comment line for the list of images that `gpu-cluster images` prints.
        refused: Whether cosign was run and did not confirm the signature.
    """

    text: str
    refused: bool = False


def verify_command(image: Image) -> tuple[str, ...]:
    """Return the cosign command that verifies an image; empty if its publisher names no key."""
    name = f"{image.upstream}{f'@{image.digest}' if image.digest else ''}"
    known = (how for registry, how in SIGNERS.items() if image.upstream.startswith(registry))
    how = next(known, ())
    return ("cosign", "verify", *how, name) if how else ()


def check(image: Image, program: str | None) -> Check:
    """Verify the signature of an image, if its publisher signs images.

    Args:
        image: The image to verify.
        program: Path of cosign; None if it is not installed.
    """
    head, command = f"# signature {image.upstream}:", verify_command(image)
    if image.note:
        return Check(f"{head} can't be verified: the name is not complete")
    if not command:
        return Check(f"{head} can't be verified: its publisher names no key; pin its digest")
    if program is None:
        return Check(f"{head} not verified: found no cosign on PATH; run: {' '.join(command)}")
    try:
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, errors="replace",
            timeout=LIMIT, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(f"{head} NOT verified: {type(error).__name__}", refused=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Check(f"{head} NOT verified: {printable(lines[-1], 300)}", refused=True)
    return Check(f"{head} verified by {command[2]}")


def checks(images: tuple[Image, ...], program: str | None) -> list[Check]:
    """Verify all images, four in parallel; return the result of each."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda image: check(image, program), images))


def chart_checks(releases: tuple[Chart, ...]) -> list[str]:
    """Return a comment line for each chart: the command that fetches its vendor's archive.

    Helm takes no `--repo` with an OCI registry (Helm documentation, "Use OCI-based registries").
    """
    result = []
    for chart in releases:
        archive = f"{chart.name}-{chart.version}.tgz"
        if chart.digest:
            known_digest = chart.digest.removeprefix("sha256:")
            published, sum_of = "", f"echo '{known_digest}  {archive}' | sha256sum --check"
        else:
            published = " (no digest of its makers is known here: note the one that is printed)"
            sum_of = f"sha256sum {archive}"
        place = f"{chart.name} --repo {chart.upstream}"
        if chart.upstream.startswith("oci://"):
            place = f"{chart.upstream}/{chart.name}"
        pull = f"helm pull {place} --version {chart.version}"
        result.append(f"# check chart {chart.name} {chart.version}{published}: {pull} && {sum_of}")
    return result


def below_floors(images: tuple[Image, ...]) -> list[str]:
    """Return a comment for each image that a security bulletin affects, with a fixed version."""
    names = tuple(image.upstream for image in images)
    return [
        f"# below {name}: take {version}: {border}" for name, version, border in of_images(names)
    ]


def main(*, packages: str = "") -> int:
    """Print the images and charts of a stack; return the exit code.

    Args:
        packages: Shell pattern of names. If it is not empty, the versions of these packages in the
            stack's declared package repositories are printed instead.
    """
    with answering("images") as json_output:
        if packages:
            return _list_packages(Stack.named(), packages, json_output)
        return _list_images(Stack.named(), json_output)


def _list_packages(stack: Stack, pattern: str, json_output: Answer) -> int:
    """Print a line for each package and repository; return 1 if a repository can't be read."""
    listed = list(listing(stack.cluster, pattern))
    json_output["packages"] = [asdict(each) for each in listed]
    for each in listed:
        if each.note:
            print(f"# repository {each.place}: not read: {each.note}")
        else:
            versions = " ".join(printable(version, 100) for version in each.versions)
            print(f"{printable(each.name, 100)} {versions} # {each.place}")
    unread = sum(bool(each.note) for each in listed)
    if unread:
        print(f"images: {unread} package repositories NOT read", file=sys.stderr)
    return int(bool(unread))


def _list_images(stack: Stack, json_output: Answer) -> int:
    cluster = stack.cluster
    platform = resolve(cluster, stack.name).platform
    other_sections = (cluster.validation, cluster.installer, cluster.monitoring)
    images, releases = needed(platform, *other_sections), charts(platform, cluster.charts)
    json_output["images"] = [asdict(image) for image in images]
    json_output["charts"] = [asdict(chart) for chart in releases]
    signatures = checks(images, shutil.which("cosign"))
    comments = [
        *(signature.text for signature in signatures),
        *chart_checks(releases),
        *below_floors(images),
    ]
    if sys.stdout.isatty():
        console = Console()
        for table in tables(images, releases):
            console.print(table)
        for line in comments:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    else:
        print("\n".join(lines(images)))
        for chart in releases:
            print(f"# chart {chart.name} {chart.version} {chart.source}")
        print("\n".join(comments))
    refused = sum(signature.refused for signature in signatures)
    json_output["signatures"] = [asdict(signature) for signature in signatures]
    if refused:
        print(f"images: {refused} of {len(signatures)} signatures NOT verified", file=sys.stderr)
    return int(bool(refused))
