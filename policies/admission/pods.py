"""The twins of the rules about pods and templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.cel import (
    asked,
    each_container,
    hundreds,
    is_gpu,
    limits,
    resources,
    text,
    texts,
    unless_empty,
)
from policies.admission.twin import NoTwin, Scope, Twin
from policies.rules.resource_names import GPU, GPU_SHARED, VCUDA_CORE, VCUDA_MEMORY

_CORE, _MEMORY = text(VCUDA_CORE), text(VCUDA_MEMORY)
_VCUDA = texts((VCUDA_CORE, VCUDA_MEMORY))
_LIMITS = limits("c")
_REQUESTS = resources("c", "resources.?requests")

_ENFORCED = NoTwin(
    "The API server itself refuses it, in pods and in templates, before any policy is asked.",
    enforced=True,
)


def _pods(places: str, *kinds: str, ephemeral: bool = False) -> Twin:
    return Twin(Scope.PODS, places, frozenset(kinds), ephemeral)


def _named(condition: str) -> str:
    """Whether container `c` has a resource `n` for which a condition holds."""
    return f"({_LIMITS}.exists(n, {condition}) || {_REQUESTS}.exists(n, {condition}))"


def _effective(name: str) -> str:
    return asked("c", name)


def _untolerated(pool: str) -> str:
    """Whether a pool has a taint that the pod does not tolerate."""
    tolerated = (
        'variables.tolerations.exists(o, (o.?effect.orValue("") == "" || '
        't.endsWith(":" + o.effect)) && (o.?key.orValue("") == "" || '
        't.startsWith(o.key + "=")) && (o.?operator.orValue("") == "Exists" || '
        't.contains("=" + o.?value.orValue("") + ":")))'
    )
    added = (
        'params.data.extendedResourceToleration == "true" && t.endsWith(":NoSchedule") && '
        f'variables.containers.exists(c, {_LIMITS}.exists(n, t.startsWith(n + "=") && '
        f"{is_gpu('n')} && sign(quantity({_LIMITS}[n])) > 0))"
    )
    return (
        f'params.data[{pool} + ".taints"].split(",").exists(t, t != "" && '
        f"!({tolerated}) && !({added}))"
    )


def _more_than_a_node(name: str, variable: str, units: int) -> str:
    largest = f"variables.largestPool * {units}"
    return unless_empty(
        f"size(variables.pools) > 0 && variables.{variable} > {largest}",
        f'"found " + string(variables.{variable}) + " {name} in one pod, wanted at most " + '
        f"string({largest})",
    )


_BY_NVIDIA = 'params.data.platform in ["device-plugin", "gpu-operator"]'
_FOREIGN = (
    f'(params.data.platform == "" ? [] : {_BY_NVIDIA} ? {_VCUDA} : [{text(GPU)}])'
    '.filter(n, !(n in params.data.resourceNames.split(",")))'
)

TWINS: Final[Mapping[str, Twin | NoTwin]] = {
    "GPU001": _ENFORCED,
    "GPU002": _ENFORCED,
    "GPU003": _ENFORCED,
    "GPU004": _pods(
        unless_empty(
            "variables.asksForGpus && size(variables.pools) > 0 && "
            f"variables.pools.all(p, {_untolerated('p')})",
            '"found no toleration for " + params.data[variables.pools[0] + ".taints"] + '
            '" of pool " + variables.pools[0]',
        )
    ),
    "GPU005": _pods(
        each_container(
            f"{_LIMITS}.exists(n, n == {_CORE}) && ({_effective(_CORE)} == 0 || "
            f"({_effective(_CORE)} > 100 && !{hundreds(f'{_LIMITS}[{_CORE}]')}))",
            f"string({_LIMITS}[{_CORE}])",
        )
    ),
    "GPU006": _pods(
        each_container(
            f"{_effective(_CORE)} > 0 && {_effective(_CORE)} < 100 && {_effective(_MEMORY)} == 0",
            f'string({_effective(_CORE)}) + " cores without memory"',
        )
    ),
    "GPU007": _pods(
        f"({_more_than_a_node(GPU, 'gpus', 1)}) + ({_more_than_a_node(VCUDA_CORE, 'cores', 100)})"
    ),
    "GPU008": _ENFORCED,
    "GPU009": _ENFORCED,
    "GPU010": _ENFORCED,
    "GPU011": _ENFORCED,
    "GPU014": NoTwin(
        "It finds names that resemble a known one, which takes a measure of likeness; CEL has none."
    ),
    "GPU015": _pods(
        each_container(
            f"{_FOREIGN}.exists(f, {_named('n == f')})",
            f"{_FOREIGN}.filter(f, {_named('n == f')})[0]",
        )
    ),
    "GPU016": _pods(
        unless_empty(
            'variables.spec.?nodeName.orValue("") != "" && variables.asksForGpus',
            '"found nodeName " + variables.spec.nodeName',
        )
    ),
    "GPU017": _pods(
        'request.namespace in params.data.infrastructureNamespaces.split(",") ? [] : '
        + each_container(
            'c.?env.orValue([]).exists(e, e.name == "NVIDIA_VISIBLE_DEVICES" && '
            '!(e.?value.orValue("") in ["none", "void"]))',
            '"NVIDIA_VISIBLE_DEVICES set by the pod"',
            "variables.judged",
        ),
        ephemeral=True,
    ),
    "GPU018": _pods(
        each_container(
            f"{_effective(_MEMORY)} > 0 && !{_LIMITS}.exists(n, n == {_CORE})",
            f'string({_LIMITS}[{_MEMORY}]) + " blocks of memory without cores"',
        )
    ),
    "GPU019": _pods(
        each_container(_named(f"n in {_VCUDA}"), '"vcuda in an init container"', "variables.init")
    ),
    "GPU020": _pods(
        'variables.annotations.filter(k, k.startsWith("tencent.com/predicate-") || '
        'k.startsWith("tencent.com/gpu-assigned")).map(k, "found annotation " + k)'
    ),
    "GPU021": _pods(
        unless_empty(
            "variables.containers.exists(c, "
            + _named('n.startsWith("nvidia.com/")')
            + f") && variables.containers.exists(c, {_named(f'n in {_VCUDA}')})",
            '"found nvidia.com and vcuda resources in one pod"',
        )
    ),
    "GPU022": _pods(
        "!variables.asksForGpus ? [] : "
        + each_container(
            "c.?securityContext.?privileged.orValue(false)", '"privileged"', "variables.judged"
        ),
        ephemeral=True,
    ),
    "GPU023": _pods(
        each_container(
            f"{asked('c', text(GPU_SHARED))} > 1", f"string({_LIMITS}[{text(GPU_SHARED)}])"
        )
    ),
    "GPU024": _pods(
        unless_empty("variables.asksForGpus", '"found GPUs in a DaemonSet"'), "DaemonSet"
    ),
    "GPU025": _pods(
        unless_empty(
            'variables.annotations[?"tencent.com/vcuda-core-limit"].hasValue() && '
            '!variables.annotations["tencent.com/vcuda-core-limit"]'
            '.matches("^0*([1-9][0-9]?|100)$")',
            '"found " + variables.annotations["tencent.com/vcuda-core-limit"]',
        )
    ),
    "GPU026": _pods(
        unless_empty(
            "variables.asksForGpus && "
            'dyn(object).spec.?strategy.?type.orValue("") != "Recreate" && '
            'string(dyn(object).spec.?strategy.?rollingUpdate.?maxSurge.orValue("25%")) '
            '!= "0" && '
            'string(dyn(object).spec.?strategy.?rollingUpdate.?maxSurge.orValue("25%")) != "0%"',
            '"found an update that starts new pods before it ends old ones"',
        ),
        "Deployment",
    ),
}
