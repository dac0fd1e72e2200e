"""Rule GPU080: amounts of HAMi's resources must be ones that HAMi can give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import HAMI_CORES, HAMI_MEMORY
from .. import cel
from ..each import each_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods

_MOST: Final = {HAMI_CORES: 100, HAMI_MEMORY: cel.CAP - 1}
# HAMi accepts up to 2**31 - 1 MiB of memory; no device has as much as a thousandth of that.
_WANTED: Final = {HAMI_CORES: "1 to 100", HAMI_MEMORY: "a number of MiB, such as 3000"}


def _check_amounts(container: Container, _: Context) -> Iterator[Finding]:
    for name, most in _MOST.items():
        resource = container.effective(name)
        if resource and resource.quantity and resource.quantity.units > most:
            yield Finding(
                path=resource.path,
                found=str(resource.quantity),
                wanted=_WANTED[name],
                cure="Correct the amount: cores are hundredths of a GPU, and memory is a number "
                "of MiB without a unit.",
            )


RULE = Rule(
    id="GPU080",
    title="gpucores and gpumem are amounts that HAMi can assign",
    severity=Severity.MANDATORY,
    check=each_container(_check_amounts),
    why="HAMi's gpucores are hundredths of a GPU, so more than 100 fit no device. gpumem is a "
    "number of MiB: for HAMi, 3Gi is 3,221,225,472 MiB, which it treats as no request.",
    source="Project-HAMi HAMi 4707fb02 pkg/device/nvidia/device.go GenerateResourceRequests, Fit",
    needs=frozenset({Need.HAMI}),
)

TWIN = pods(
    cel.each_container(
        " || ".join(f"{cel.asked('c', cel.text(name))} > {most}" for name, most in _MOST.items()),
        '"more of gpucores or gpumem than HAMi gives"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    pod(limits="nvidia.com/gpu: 1, nvidia.com/gpucores: 50, nvidia.com/gpumem: 3000"),
    ("nvidia.com/gpucores: 50, nvidia.com/gpumem: 3000", "nvidia.com/gpumem: 3Gi"),
    settings={"platform": "hami"},
)
