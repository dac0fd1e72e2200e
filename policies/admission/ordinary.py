"""Which pods break no rule at a glance: most do, and cost next to nothing then.

The API server evaluates variables twice, for the result and for the message, and copies the object
each time (k8s.io/apiserver v0.34.4 pkg/admission/plugin/policy/validating/validator.go Validate). A
match condition that no pod in good order meets saves all of that. It may let too many through to
the rules, never too few: each rule names the signs without which it finds nothing, and a rule that
names none is always judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from policies.admission.cel import limits, requests, resources, text, texts, tolerates
from policies.admission.isolation import PREFIXED, PRIVILEGED
from policies.admission.workloads import PINNED
from policies.rules.exemptions import PREFIX
from policies.rules.isolation import VARIABLE
from policies.rules.resource_names import GPU

_NATIVE: Final = texts(("cpu", "memory", "ephemeral-storage"))
_INIT = "object.spec.?initContainers.orValue([])"
_CONTAINERS = f"(dyn(object.spec.containers) + dyn({_INIT}))"
_ANNOTATIONS = "object.metadata.?annotations.orValue({})"
_VOLUMES = "object.spec.?volumes.orValue([])"
_SELECTOR = "object.spec.?nodeSelector.orValue({})"
_LIMITS, _REQUESTS = limits("c"), requests("c")
_GPUS = f"{text(GPU)} in {_LIMITS}"

_SHARED_MEMORY = (
    'c.?volumeMounts.orValue([]).exists(m, m.mountPath == "/dev/shm" && '
    f'{_VOLUMES}.exists(v, v.name == m.name && v.?emptyDir.?medium.orValue("") == "Memory"))'
)
_SIZED = (
    f'"cpu" in {_REQUESTS} && "memory" in {_LIMITS} && '
    f'{_REQUESTS}[?"memory"] == {_LIMITS}[?"memory"]'
)
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

_OF_CONTAINERS: Final[Mapping[str, str]] = {
    "names": f"!{_LIMITS}.all(n, n in {_NATIVE} || n == {_GPU})",
    "variable": f"c.?env.orValue([]).exists(e, e.name == {text(VARIABLE)}) || {PREFIXED}",
    "privileged": PRIVILEGED,
}
"""What a container `c` has that a rule may find something in, by a name."""

_OF_GPU_CONTAINERS: Final[Mapping[str, str]] = {
    "shared memory": f'{_LIMITS}[{text(GPU)}] != "1" && !({_SHARED_MEMORY})',
    "sizes": f"!({_SIZED})",
    "image": f"!{PINNED}",
}
"""The same of one with GPUs."""

_OF_PODS: Final[Mapping[str, str]] = {
    "annotations": f'{_ANNOTATIONS}.exists(k, k.startsWith("tencent.com/"))',
    "exemptions": f"{_ANNOTATIONS}.exists(k, k.startsWith({text(PREFIX)}))",
    "node": "has(object.spec.nodeName)",
    "host paths": f"{_VOLUMES}.exists(v, has(v.hostPath))",
    "overhead": f"size({resources('object.spec', 'overhead')}) > 0",
    # Without GPUs it tolerates no taint of theirs; with some, in one container, it fits every pool
    # that it may go to.
    "place": f"[{_CONTAINERS}.filter(c, {_GPUS})].exists(g, size(g) == 0 ? "
    f'{_TAINTS}.exists(t, t != "" && {_COVERED}) : !({_IN_PLACE}))',
}

_PLACE = ("names", "overhead", "place")
_SIGNS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("GPU004", "GPU007", "GPU028", "GPU032", "GPU034", "GPU037"), _PLACE),
    **dict.fromkeys(("GPU005", "GPU006", "GPU018", "GPU019", "GPU021", "GPU046"), ("names",)),
    **dict.fromkeys(("GPU015", "GPU023", "GPU043", "GPU044", "GPU045", "GPU061"), ("names",)),
    "GPU016": ("node",),
    "GPU017": ("variable",),
    "GPU020": ("annotations",),
    "GPU022": ("privileged",),
    "GPU025": ("annotations",),
    "GPU036": ("host paths",),
    "GPU049": ("names", "shared memory"),
    "GPU050": ("names", "sizes"),
    "GPU051": ("names", "image"),
    "GPU062": ("exemptions",),
}


def condition(rules: Iterable[str]) -> str:
    """CEL that is true where a pod may break one of the rules, over `object` and `params` alone.

    Empty where one of them names no sign.
    """
    wanted: set[str] = set()
    for rule in rules:
        if rule not in _SIGNS:
            return ""
        wanted.update(_SIGNS[rule])

    def any_of(signs: Mapping[str, str]) -> str:
        return " || ".join(f"({cel})" for name, cel in signs.items() if name in wanted)

    near = any_of(_OF_CONTAINERS)
    if with_gpus := any_of(_OF_GPU_CONTAINERS):
        near += f"{' || ' if near else ''}{_GPUS} && ({with_gpus})"
    found = any_of(_OF_PODS)
    return " || ".join(filter(None, (f"{_CONTAINERS}.exists(c, {near})" if near else "", found)))
