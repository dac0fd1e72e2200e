"""Rule GPU051: the image of a GPU container should have a fixed version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import cel
from ..context import Context, Severity
from ..each import each_gpu_container
from ..example import POD, Example
from ..pod_spec import Container
from ..rule import Finding, Rule
from ..signs import CLAIMS, NAMES, NO_LIMIT, On, Sign
from ..twin import pods
from ..unknown import text

_TAG = re.compile(r"[\w][\w.-]{0,127}")


def _fixed_image(container: Container, _: Context) -> Iterator[Finding]:
    image = text(container.spec.get("image"))
    if image and not pinned(image):
        yield Finding(
            path=f"{container.path}.image",
            found="an image without a fixed version",
            wanted="a tag other than latest, or a digest",
            cure="Write the version: CUDA in the image must fit the driver on the nodes.",
        )


def pinned(image: str) -> bool:
    """Return whether an image reference has a digest, or a tag other than `latest`."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return digest.startswith("sha256:") or bool(_TAG.fullmatch(tag) and tag != "latest")


RULE = Rule(
    id="GPU051",
    title="A GPU container's image has a fixed version",
    severity=Severity.ADVISORY,
    check=each_gpu_container(_fixed_image),
    why="The CUDA version in an image needs a minimum driver version. The tag `latest` changes "
    "while the driver of the cluster stays the same.",
    source="NVIDIA CUDA compatibility guide; kubernetes v1.34.4 pkg/util/parsers",
)

_TAG_CEL = "^([^@]*/)?[^@/:]*:"

PINNED = (
    '(c.image.matches("^[^@]*@sha256:") || '
    rf'(c.image.matches("{_TAG_CEL}[\\w][\\w.-]{{0,127}}(@|$)") && '
    f'!c.image.matches("{_TAG_CEL}latest(@|$)")))'
)

TWIN = pods(
    cel.each_container(
        f'c.?image.orValue("") != "" && !{PINNED}',
        '"an image without a fixed version"',
        "variables.gpuContainers",
    ),
    on_update=cel.IMAGES_CHANGED,
    signs=(NAMES, CLAIMS, NO_LIMIT, Sign(f"!{PINNED}", On.GPU_CONTAINER)),
)

EXAMPLE = Example.edited(
    POD,
    ("image: registry.example.com/cuda:13.0", "image: registry.example.com/cuda:latest"),
)
