"""Setting `platform` of the stack file: the software that provides the GPUs to pods."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_cluster.base.nearness import nearest
from gpu_rules.faults import refuse, show

NAMES = tuple(
    sorted(
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules([str(Path(__file__).parents[1] / "platforms")])
        if module.ispkg
    )
)
"""Names of all platforms: each folder of `gpu_cluster.platforms` that is a Python package."""


def _validate_platform_name(text: str) -> str:
    if text not in NAMES:
        raise refuse(show(text), f"one of {', '.join(NAMES)}", f'write "{nearest(text, NAMES)}"')
    return text


PlatformName = Annotated[StrictStr, AfterValidator(_validate_platform_name)]
"""Name of the software that advertises GPUs to Kubernetes.

`device-plugin`: only NVIDIA's device plugin. `gpu-operator`: NVIDIA's GPU Operator with all its
operands. `gpu-manager`: TKEStack's gpu-manager, which shares GPUs (`tencent.com/vcuda-core`).
`dra`: NVIDIA's driver for Dynamic Resource Allocation.

Together with `driver.source` there are six combinations: device-plugin with a driver on the hosts
or from a DaemonSet, gpu-operator with its own driver or one on the hosts, gpu-manager, and dra.
"""
