"""Signs: simple CEL tests that are true for every pod that can break a rule.

Most pods break no rule. A match condition made of signs lets them pass without evaluating the
rules. A sign may be true for a pod that breaks no rule, but must never be false for a pod that
breaks one. Signs use only `object` and `facts`, a map of the facts about the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ..kube.gpu_resources import GPU
from ..kube.names import NATIVE
from .cel import LIMITS, OR_LIST, OR_MAP, REQUESTS, resources, text, texts, tolerates


class On(Enum):
    """Scope of a sign: the pod, each container `c`, or each container `c` that requests GPUs."""

    POD = auto()
    CONTAINER = auto()
    GPU_CONTAINER = auto()


@dataclass(frozen=True, slots=True)
class Sign:
    """A CEL test that is true if a rule may find something.

    Attributes:
        cel: The expression.
        on: What the expression tests.
    """

    cel: str
    on: On = On.POD


INIT: Final = f"object.spec.?initContainers{OR_LIST}"
CONTAINERS: Final = f"(dyn(object.spec.containers) + dyn({INIT}))"
ANNOTATIONS: Final = f"object.metadata.?annotations{OR_MAP}"
VOLUMES: Final = f"object.spec.?volumes{OR_LIST}"
HAS_GPUS: Final = f"{text(GPU)} in {LIMITS}"

_NATIVE: Final = texts(NATIVE)
_SELECTOR = f"object.spec.?nodeSelector{OR_MAP}"
_GPU = "facts.ordinaryGpu"
_TAINTS = 'facts.taints.split(",")'
_COVERED = f"object.spec.?tolerations{OR_LIST}.exists(o, {tolerates('o', 't')})"
_OF_A_POOL = (
    'facts.pools.split(",").exists(p, p != "" && '
    f'{_SELECTOR}.all(k, k + "=" + {_SELECTOR}[k] in facts[p + ".labels"].split(",")))'
)
_IN_PLACE = (
    f"size(g) == 1 && g[0].resources.limits[{text(GPU)}] in "
    'facts.ordinaryGpus.split(",") && '
    f'{_TAINTS}.all(t, t == "" || {_COVERED}) && '
    f"(size({_SELECTOR}) == 0 || {_OF_A_POOL}) && !has(object.spec.affinity) && "
    '(!("runtimeClass" in facts) || '
    'object.spec.?runtimeClassName.orValue("") == facts.runtimeClass)'
)

NAMES: Final = Sign(f"!{LIMITS}.all(n, n in {_NATIVE} || n == {_GPU})", On.CONTAINER)
"""Sign: a container names a resource other than cpu, memory, storage and the usual GPU resource."""

OVERHEAD: Final = Sign(f"size({resources('object.spec', 'overhead')}) > 0")

PLACE: Final = Sign(
    f"[{CONTAINERS}.filter(c, {HAS_GPUS})].exists(g, size(g) == 0 ? "
    f'{_TAINTS}.exists(t, t != "" && {_COVERED}) : !({_IN_PLACE}))'
)
"""Sign: a pod without GPUs tolerates a taint of GPU nodes, or a pod with GPUs may not fit all pools
that it can be scheduled to.
"""

CLAIMS: Final = Sign(f"size(object.spec.?resourceClaims{OR_LIST}) > 0")
"""Sign: a pod claims devices (DRA)."""

NO_LIMIT: Final = Sign(f'{REQUESTS}.exists(n, n.contains("kubernetes.io/"))', On.CONTAINER)
"""Sign: a container requests a resource that needs no limit, such as that of a DeviceClass."""

PLACED: Final = (NAMES, OVERHEAD, PLACE, CLAIMS, NO_LIMIT)
"""The signs for all rules about a pod's amounts and its placement."""

TENCENT_ANNOTATIONS: Final = Sign(f'{ANNOTATIONS}.exists(k, k.startsWith("tencent.com/"))')
