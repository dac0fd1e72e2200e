"""Rule GPU083: a GPU container should not switch off the check of CUDA against the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from .. import cel
from ..each import each_gpu_container
from ..example import Example, pod
from ..pod_spec import Container
from ..rule import Finding, Rule
from ..signs import CLAIMS, NAMES, NO_LIMIT, On, Sign
from ..twin import pods
from ..unknown import at, sequence, text

_VARIABLE: Final = "NVIDIA_DISABLE_REQUIRE"
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
"""Texts that Go's strconv.ParseBool takes for true."""


def _is_checked(container: Container, _: Context) -> Iterator[Finding]:
    for index, env in enumerate(sequence(container.spec.get("env"))):
        if at(env, "name") == _VARIABLE and text(at(env, "value")) in _TRUE:
            yield Finding(
                path=f"{container.path}.env[{index}]",
                found=f"{_VARIABLE} set to {text(at(env, 'value'))}",
                wanted="no such variable",
                cure="Remove it, and use an image whose CUDA version the driver of the nodes "
                "supports.",
            )


RULE = Rule(
    id="GPU083",
    title="A GPU container does not switch off the check of the driver",
    severity=Severity.ADVISORY,
    check=each_gpu_container(_is_checked),
    why="An image says which CUDA version it needs, and the NVIDIA runtime refuses to start it on "
    "a driver that is too old. With the variable, it starts and fails later, at a call of CUDA.",
    source="NVIDIA/nvidia-container-toolkit d34b3046 internal/config/image/cuda_image.go "
    "HasDisableRequire",
)

_SETS = (
    f"c.?env{cel.OR_LIST}.exists(e, e.name == {cel.text(_VARIABLE)} && "
    f'e.?value.orValue("") in {cel.texts(_TRUE)})'
)

TWIN = pods(
    cel.each_container(_SETS, f'"{_VARIABLE} is set"', "variables.gpuContainers"),
    signs=(NAMES, CLAIMS, NO_LIMIT, Sign(_SETS, On.GPU_CONTAINER)),
)

EXAMPLE = Example.edited(
    pod(of_container='env: [{name: NVIDIA_DISABLE_REQUIRE, value: "false"}]'),
    ('"false"', '"true"'),
)
