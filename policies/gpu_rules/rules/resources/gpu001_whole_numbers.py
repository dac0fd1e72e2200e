"""Rule GPU001: a GPU request must be a whole number."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from ..each import each_amount
from ..example import POD, Example
from ..pod_spec import Container, Resource
from ..rule import Finding, Rule
from ..twin import ENFORCED
from . import VALIDATION


def _cure_text(resource: Resource) -> str:
    if resource.name == VCUDA_MEMORY:
        return "Request whole blocks of 256 MiB."
    if resource.name != VCUDA_CORE or resource.quantity is None:
        return "Request whole devices; parts of a GPU need MIG, time-slicing or vcuda."
    cores = resource.quantity.units * 100
    if 0 < cores < 100 and cores.denominator == 1:
        share = float(resource.quantity.units)
        return f"Request hundredths of a GPU: {cores} are {share:g} of a GPU."
    return "Request hundredths of a GPU: 1 to 100, or a multiple of 100."


def _check_whole(resource: Resource, _: Container, __: Context) -> Iterator[Finding]:
    if resource.quantity and not resource.quantity.whole:
        yield Finding(
            path=resource.path,
            found=str(resource.quantity),
            wanted="a whole number",
            cure=_cure_text(resource),
        )


RULE = Rule(
    id="GPU001",
    title="GPU amounts are whole numbers",
    severity=Severity.MANDATORY,
    check=each_amount(_check_whole),
    why="The API server rejects a fraction of an extended resource. It first rounds up to a "
    "thousandth: 2000m and 0.9999999 are accepted, 500m and 1.5 are rejected.",
    source=f"{VALIDATION} ValidateResourceQuantityValue; pkg/apis/core/v1/defaults.go "
    "SetDefaults_ResourceList",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    ("nvidia.com/gpu: 1", "nvidia.com/gpu: 500m"),
)
