"""Rule GPU051: the image of a GPU container should have a fixed version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_gpu_container
from ..example import POD, Example
from ..pod_spec import Container
from ..rule import Finding, Rule
from ..signs import CLAIMS, NAMES, NO_LIMIT, On, Sign
from ..twin import pods
from ..unknown import text

_TAG = re.compile(r"[\w][\w.-]{0,127}")
_MOVING = "(latest|main|master|nightly|dev|develop|edge|stable)([-_.][A-Za-z_.-]*)?"
"""Pattern of tags that a registry moves: a name of a branch or channel, perhaps with a suffix that
has no digit, such as latest-gpu. A digit may be that of a version or date, as in nightly-20260101.
"""


def _fixed_image(container: Container, _: Context) -> Iterator[Finding]:
    image = text(container.spec.get("image"))
    if image and not pinned(image):
        yield Finding(
            path=f"{container.path}.image",
            found="an image without a fixed version",
            wanted="a tag of a version, or a digest",
            cure="Write the version: CUDA in the image must fit the driver on the nodes.",
        )


def pinned(image: str) -> bool:
    """Return whether an image reference has a digest, or a tag that does not move."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    is_fixed = _TAG.fullmatch(tag) and not re.fullmatch(_MOVING, tag)
    return digest.startswith("sha256:") or bool(is_fixed)


RULE = Rule(
    id="GPU051",
    title="A GPU container's image has a fixed version",
    severity=Severity.ADVISORY,
    check=each_gpu_container(_fixed_image),
    why="The CUDA version in an image needs a minimum driver version. Tags such as `latest`, "
    "`main` or `nightly-gpu` move to other images while the driver of the cluster stays the same.",
    source="NVIDIA CUDA compatibility guide; kubernetes v1.34.4 pkg/util/parsers",
)

_TAG_CEL = "^([^@]*/)?[^@/:]*:"

PINNED = (
    '(c.image.matches("^[^@]*@sha256:") || '
    rf'(c.image.matches("{_TAG_CEL}[\\w][\\w.-]{{0,127}}(@|$)") && '
    f'!c.image.matches("{_TAG_CEL}{_MOVING}(@|$)")))'
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
