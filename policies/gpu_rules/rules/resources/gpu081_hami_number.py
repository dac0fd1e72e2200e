"""Rule GPU081: a container that requests parts of a GPU from HAMi should request GPUs too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE
from .. import cel
from ..each import each_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods

_PARTS: Final = frozenset({HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE})


def _check_number(container: Container, _: Context) -> Iterator[Finding]:
    share_names = sorted(_PARTS & container.asked_names)
    if share_names and GPU not in container.resource_names:
        yield Finding(
            path=f"{container.path}.resources.limits[{GPU}]",
            found=f"no number of GPUs, but {share_names[0]}",
            wanted="the number of GPUs",
            cure=f"Request {GPU}, too: quotas count it, and only HAMi's webhook adds it otherwise.",
        )


RULE = Rule(
    id="GPU081",
    title="A container with a part of a GPU also requests a number of GPUs",
    severity=Severity.ADVISORY,
    check=each_container(_check_number),
    why="gpucores, gpumem and gpumem-percentage are amounts of each device; nvidia.com/gpu is "
    "the number of devices. If the number is missing, HAMi's webhook adds its default, so "
    "that no manifest, no configured maximum and no quota shows it.",
    source="Project-HAMi HAMi 4707fb02 pkg/device/nvidia/device.go mutateContainerResource",
    whole=True,
    needs=frozenset({Need.HAMI}),
)

TWIN = pods(
    cel.each_container(
        f"{cel.asks_for(f'n in {cel.texts(_PARTS)}')} && !{cel.named(f'n == {cel.text(GPU)}')}",
        '"a part of a GPU without a number of GPUs"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    pod(limits="nvidia.com/gpu: 1, nvidia.com/gpucores: 50"),
    ("nvidia.com/gpu: 1, ", ""),
    settings={"platform": "hami"},
)
