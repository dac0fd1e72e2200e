"""Signs: what a pod must have at a glance before a rule can find something in it.

Most pods break no rule, and cost next to nothing where a match condition sees that. It may let too
many through to the rules, never too few: each rule names the signs without which it finds nothing.
A sign is CEL over `object` and `params` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from .cel import LIMITS, resources, text, texts, tolerates
from .resource_names import GPU


class On(Enum):
    """What a sign is about: the pod, any of its containers `c`, or one `c` with GPUs."""

    POD = auto()
    CONTAINER = auto()
    GPU_CONTAINER = auto()


@dataclass(frozen=True, slots=True)
class Sign:
    """CEL that is true where a rule may find something."""

    cel: str
    on: On = On.POD


INIT: Final = "object.spec.?initContainers.orValue([])"
CONTAINERS: Final = f"(dyn(object.spec.containers) + dyn({INIT}))"
ANNOTATIONS: Final = "object.metadata.?annotations.orValue({})"
VOLUMES: Final = "object.spec.?volumes.orValue([])"
HAS_GPUS: Final = f"{text(GPU)} in {LIMITS}"

_NATIVE: Final = texts(("cpu", "memory", "ephemeral-storage"))
_SELECTOR = "object.spec.?nodeSelector.orValue({})"
# With a parameter from before these keys, every pod with GPUs is judged.
_GPU = 'params.data[?"ordinaryGpu"].orValue("")'
_TAINTS = 'params.data.taints.split(",")'
_COVERED = f"object.spec.?tolerations.orValue([]).exists(o, {tolerates('o', 't')})"
_OF_A_POOL = (
    'params.data.pools.split(",").exists(p, p != "" && '
    f'{_SELECTOR}.all(k, k + "=" + {_SELECTOR}[k] in params.data[p + ".labels"].split(",")))'
)
_IN_PLACE = (
    f"size(g) == 1 && g[0].resources.limits[{text(GPU)}] in "
    'params.data[?"ordinaryGpus"].orValue("").split(",") && '
    f'{_TAINTS}.all(t, t == "" || {_COVERED}) && '
    f"(size({_SELECTOR}) == 0 || {_OF_A_POOL}) && !has(object.spec.affinity) && "
    '(!("runtimeClass" in params.data) || '
    'object.spec.?runtimeClassName.orValue("") == params.data.runtimeClass)'
)

NAMES: Final = Sign(f"!{LIMITS}.all(n, n in {_NATIVE} || n == {_GPU})", On.CONTAINER)
"""Resources other than the one that pods in good order ask for."""

OVERHEAD: Final = Sign(f"size({resources('object.spec', 'overhead')}) > 0")

PLACE: Final = Sign(
    f"[{CONTAINERS}.filter(c, {HAS_GPUS})].exists(g, size(g) == 0 ? "
    f'{_TAINTS}.exists(t, t != "" && {_COVERED}) : !({_IN_PLACE}))'
)
"""Without GPUs it tolerates a taint of theirs; with some it may not fit every pool it may go to."""

PLACED: Final = (NAMES, OVERHEAD, PLACE)
"""The signs of all that may be wrong with a pod's amounts and its place."""

TENCENT_ANNOTATIONS: Final = Sign(f'{ANNOTATIONS}.exists(k, k.startsWith("tencent.com/"))')
