"""The twins of the rules about the resources that containers ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.cel import (
    asked,
    each_container,
    hundreds,
    limits,
    named,
    parameter,
    text,
    texts,
    unless_empty,
)
from policies.admission.twin import Twin, pods
from policies.rules.resource_names import GPU, HAMI_PERCENTAGE, MIG, VCUDA_CORE, VCUDA_MEMORY

_CORE, _MEMORY = text(VCUDA_CORE), text(VCUDA_MEMORY)
_VCUDA = texts((VCUDA_CORE, VCUDA_MEMORY))
_LIMITS = limits("c")
_CORES, _BLOCKS = asked("c", _CORE), asked("c", _MEMORY)
_HAS_CORE = f"{_LIMITS}.exists(n, n == {_CORE})"

_NVIDIA = named('n.startsWith("nvidia.com/")')
_FOREIGN = (
    '(!("platform" in params.data) ? [] : '
    f'params.data.platform in ["device-plugin", "gpu-operator"] ? {_VCUDA} : [{text(GPU)}])'
    f".filter(n, !(n in {parameter('resourceNames')}))"
)
_HIDDEN = named("n == params.data.notAdvertised")
_LIMIT_KEY = text("tencent.com/vcuda-core-limit")
_MIGS = f"{_LIMITS}.filter(n, n.startsWith({text(MIG)}))"
_POOL_BLOCKS = 'params.data[p + ".blocks"]'

TWINS: Final[Mapping[str, Twin]] = {
    "GPU005": pods(
        each_container(
            f"{_HAS_CORE} && ({_CORES} == 0 || "
            f"({_CORES} > 100 && !{hundreds(f'{_LIMITS}[{_CORE}]')}))",
            f"string({_LIMITS}[{_CORE}])",
        )
    ),
    "GPU006": pods(
        each_container(
            f"{_CORES} > 0 && {_CORES} < 100 && {_BLOCKS} == 0",
            f'string({_CORES}) + " cores without memory"',
        )
    ),
    "GPU015": pods(
        each_container(
            f"{_FOREIGN}.exists(f, {named('n == f')})",
            f"{_FOREIGN}.filter(f, {named('n == f')})[0]",
        )
    ),
    "GPU018": pods(
        each_container(
            f"{_BLOCKS} > 0 && !{_HAS_CORE}",
            f'string({_LIMITS}[{_MEMORY}]) + " blocks of memory without cores"',
        )
    ),
    "GPU019": pods(
        each_container(named(f"n in {_VCUDA}"), '"vcuda in an init container"', "variables.init")
    ),
    "GPU020": pods(
        'variables.annotations.filter(k, k.startsWith("tencent.com/predicate-") || '
        'k.startsWith("tencent.com/gpu-assigned")).map(k, "found annotation " + k)'
    ),
    "GPU021": pods(
        unless_empty(
            f"variables.containers.exists(c, {_NVIDIA}) && "
            f"variables.containers.exists(c, {named(f'n in {_VCUDA}')})",
            '"found nvidia.com and vcuda resources in one pod"',
        )
    ),
    "GPU023": pods(
        each_container(
            f"{parameter('sharedResources')}.exists(n, {asked('c', 'n')} > 1)",
            '"several shares of a GPU"',
        )
    ),
    "GPU025": pods(
        unless_empty(
            f"variables.annotations[?{_LIMIT_KEY}].hasValue() && "
            f'!variables.annotations[{_LIMIT_KEY}].matches("^0*([1-9][0-9]?|100)$")',
            f'"found " + variables.annotations[{_LIMIT_KEY}]',
        )
    ),
    "GPU043": pods(
        each_container(
            f'"notAdvertised" in params.data && {_HIDDEN}',
            "params.data.notAdvertised",
        )
    ),
    "GPU044": pods(
        each_container(
            'params.data[?"migByName"].orValue("") == "false" && '
            + named(f"n.startsWith({text(MIG)}) && !(n in {parameter('resourceNames')})"),
            '"a MIG device by name"',
        )
    ),
    "GPU045": pods(
        each_container(
            f"{_MIGS}.map(n, {asked('c', 'n')}).sum() > 1",
            f'string({_MIGS}.map(n, {asked("c", "n")}).sum()) + " MIG devices"',
        )
    ),
    "GPU046": pods(
        'size(variables.pools) == 0 || variables.pools.exists(p, !((p + ".blocks") in params.data))'
        " ? [] : "
        + each_container(
            f"{_CORES} > 0 && {_CORES} < 100 && "
            f"variables.pools.all(p, {_BLOCKS} > int({_POOL_BLOCKS}))",
            f'string({_BLOCKS}) + " blocks of memory"',
        )
    ),
    "GPU061": pods(
        each_container(
            f"{asked('c', text(HAMI_PERCENTAGE))} > 100",
            f"string({asked('c', text(HAMI_PERCENTAGE))})",
        )
    ),
}
