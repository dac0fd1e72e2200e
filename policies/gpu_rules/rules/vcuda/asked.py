"""CEL for the vcuda resources that a container requests."""

from __future__ import annotations

from ...kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from .. import cel

CORE_NAME, MEMORY_NAME = cel.text(VCUDA_CORE), cel.text(VCUDA_MEMORY)


NAMES_OF_VCUDA = cel.texts((VCUDA_CORE, VCUDA_MEMORY))

CORES_ASKED, BLOCKS_ASKED = cel.asked("c", CORE_NAME), cel.asked("c", MEMORY_NAME)
