"""Which platform serves the GPUs: the name of a folder of `platforms`, with dashes."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from components.base.nearness import nearest
from policies.faults import refuse, show

NAMES = tuple(
    sorted(
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules([str(Path(__file__).parents[1] / "platforms")])
        if module.ispkg
    )
)
"""Every platform. A folder with `platform.py` is one; nothing else lists them."""


def _known(text: str) -> str:
    if text not in NAMES:
        raise refuse(show(text), f"one of {', '.join(NAMES)}", f'write "{nearest(text, NAMES)}"')
    return text


PlatformName = Annotated[StrictStr, AfterValidator(_known)]
"""How GPUs are offered in the cluster.

`device-plugin`: NVIDIA's device plugin alone. `gpu-operator`: the whole GPU Operator.
`gpu-manager`: TKEStack's gpu-manager, which shares cards (`tencent.com/vcuda-core`).
`dra`: NVIDIA's driver for Dynamic Resource Allocation.

With `driver.source` these make six ways: device-plugin on installed drivers or with the driver
by DaemonSet, gpu-operator with its own driver or on installed ones, gpu-manager, dra.
"""
