"""The twins of the rules about ways past the device plugin."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from policies.admission.cel import (
    each_container,
    in_workloads,
    parameter,
    text,
    texts,
    tolerates,
    unless_empty,
)
from policies.admission.twin import Scope, Twin, pods
from policies.rules.isolation import (
    ALL_DEVICES,
    GIVES_GPUS,
    NO_DEVICES,
    PARENTS,
    PROCESS_ROOT,
    SOCKETS,
    VARIABLE,
)

_ENCODED = texts(b64encode(each.encode()).decode() for each in NO_DEVICES)
_VALUES = "dyn(object).?data.orValue({})"
_NONE = f'(dyn(object).kind == "Secret" ? {_ENCODED} : {texts(NO_DEVICES)})'
_GIVES = " || ".join(f'h.startsWith("{each}")' for each in GIVES_GPUS)
_NEAR = (
    "(variables.asksForGpus || variables.tolerations.exists(o, "
    f"variables.taints.exists(t, {tolerates('o', 't')})) || "
    'variables.pools.exists(p, params.data[p + ".taints"] == ""))'
)
PREFIXED: Final = (
    'c.?envFrom.orValue([]).exists(e, e.?prefix.orValue("") != "" && '
    f'"{VARIABLE}".startsWith(e.prefix))'
)
PRIVILEGED: Final = (
    "(c.?securityContext.?privileged.orValue(false) || "
    "c.?securityContext.?capabilities.?add.orValue([])"
    f".exists(a, a.upperAscii() in {texts(ALL_DEVICES)}))"
)
_CLASS = 'variables.spec.?runtimeClassName.orValue("")'

TWINS: Final[Mapping[str, Twin]] = {
    "GPU017": pods(
        in_workloads(
            each_container(
                f'c.?env.orValue([]).exists(e, e.name == "{VARIABLE}" && (has(e.valueFrom) || '
                f'!(e.?value.orValue("") in {texts(NO_DEVICES)}))) || {PREFIXED}',
                f'"{VARIABLE} set by the pod"',
                "variables.judged",
            )
        ),
        ephemeral=True,
    ),
    "GPU022": pods(
        in_workloads(
            "!variables.asksForGpus ? [] : "
            + each_container(
                PRIVILEGED, '"privileged, or with a capability like it"', "variables.judged"
            )
        ),
        ephemeral=True,
    ),
    "GPU035": Twin(
        in_workloads(
            unless_empty(
                f'"{VARIABLE}" in {_VALUES} && !({_VALUES}["{VARIABLE}"] in {_NONE})',
                f'"found {VARIABLE}"',
            )
        ),
        scopes=frozenset({Scope.VALUES}),
    ),
    "GPU036": pods(
        in_workloads(
            f"variables.hostPaths.filter(h, {_GIVES} || h in {texts(SOCKETS)} || "
            f"h.matches({text(PROCESS_ROOT)}) || "
            f'({_NEAR} && h in {texts(PARENTS)})).map(h, "found host path " + h)'
        )
    ),
    "GPU037": pods(
        unless_empty(
            '"runtimeClass" in params.data && variables.asksForGpus && '
            f"{_CLASS} != params.data.runtimeClass && "
            f"!({_CLASS} in {parameter('runtimeClasses')})",
            f'"found " + ({_CLASS} == "" ? "no RuntimeClass" : {_CLASS})',
        )
    ),
}
