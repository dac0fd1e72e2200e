"""The twins of the rules about where pods go, and whether there is room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from policies.admission.cel import (
    asked,
    each_container,
    in_workloads,
    is_device,
    is_gpu,
    limits,
    positive,
    text,
    tolerates,
    unless_empty,
)
from policies.admission.pod_variables import NAMES, SIDECAR, request
from policies.admission.twin import Twin, pods
from policies.rules.resource_names import SOUNDS_LIKE_GPU, VCUDA_CORE
from policies.rules.tolerations import NODE_SERVICES

_LIMITS = limits("c")
_TAINTS = 'params.data[p + ".taints"].split(",")'
_OVERHEAD = positive('variables.overhead[?n].orValue("0")')
_TOLERATED = f"variables.tolerations.exists(o, {tolerates('o', 't')})"


def _added() -> str:
    """Whether the ExtendedResourceToleration admission plugin adds a toleration of taint `t`."""
    return (
        'params.data.extendedResourceToleration == "true" && t.endsWith(":NoSchedule") && '
        f'variables.containers.exists(c, {_LIMITS}.exists(n, t.startsWith(n + "=") && '
        f"{is_gpu('n')} && ({positive(f'{_LIMITS}[n]')} || {_OVERHEAD})))"
    )


_UNTOLERATED = f'{_TAINTS}.exists(t, t != "" && !{_TOLERATED} && !({_added()}))'


def _sizes(key: str) -> str:
    """What the pools that the pod may go to have of a resource, where that is known."""
    return (
        f'variables.pools.filter(p, (p + ".{key}") in params.data)'
        f'.map(p, int(params.data[p + ".{key}"]))'
    )


def _more_than_a_node(key: str, name: str) -> str:
    asks = f"variables.{key}Request"
    return (
        "("
        + unless_empty(
            f"{asks} > 0 && size({_sizes(key)}) > 0 && {asks} > {_sizes(key)}.max()",
            f'"found " + string({asks}) + " {name} in one pod, wanted at most " + '
            f"string({_sizes(key)}.max())",
        )
        + ")"
    )


def _update_has_no_room(key: str, name: str) -> str:
    asks, room = f"variables.{key}Request", _sizes(f"{key}.all")
    during = f"{asks} * (variables.replicas + variables.surge)"
    return (
        "("
        + unless_empty(
            f"variables.surges && {asks} > 0 && size(variables.pools) > 0 && "
            f"size({room}) == size(variables.pools) && "
            f"{asks} * variables.replicas <= {room}.sum() && {room}.sum() < {during}",
            f'"found an update that needs " + string({during}) + " {name}, wanted at most " + '
            f"string({room}.sum())",
        )
        + ")"
    )


def _each(function: Callable[[str, str], str]) -> str:
    return " + ".join(function(key, name) for key, name in NAMES.items())


# Devices and MIG devices count 100, vcuda-core as it is: hundredths of a GPU.
_DEVICES = f"{_LIMITS}.filter(n, {is_device('n')}).map(n, {asked('c', 'n')} * 100).sum()"
_HUNDREDTHS = f"{_DEVICES} + {asked('c', text(VCUDA_CORE))}"
_DISTINCT = (
    'variables.deviceNames.transformList(i, n, n != "" && variables.deviceNames.indexOf(n) == i, n)'
)
_OF_NAME = request(
    "n",
    f"variables.init.map(c, {asked('c', 'n')})",
    f"variables.init.map(c, {SIDECAR} ? {asked('c', 'n')} : 0)",
)
_TOTAL = f"({_DISTINCT}.map(n, ({_OF_NAME}) * 100).sum() + variables.coreRequest)"
_CAP = 'int(params.data["{}"]) * 100'
_NOT_OF_DAEMON_SET = (
    'dyn(object).kind != "DaemonSet" && '
    '!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == "DaemonSet" && '
    "o.?controller.orValue(false))"
)
_SOUNDS_LIKE_GPU = f"n.lowerAscii().matches({text(SOUNDS_LIKE_GPU)})"
_MAY_ASK = (
    "(size(variables.spec.?resourceClaims.orValue([])) > 0 || "
    f"variables.containers.exists(c, {_LIMITS}.exists(n, ({is_gpu('n')} || {_SOUNDS_LIKE_GPU}) && "
    f"{positive(f'{_LIMITS}[n]')})))"
)
_SERVES_NODES = " || ".join(f'h.startsWith("{each}")' for each in sorted(NODE_SERVICES))

TWINS: Final[Mapping[str, Twin]] = {
    "GPU004": pods(
        unless_empty(
            "variables.asksForGpus && size(variables.pools) > 0 && "
            f"variables.pools.all(p, {_UNTOLERATED})",
            '"found no toleration for " + params.data[variables.pools[0] + ".taints"] + '
            '" of pool " + variables.pools[0]',
        )
    ),
    "GPU007": pods(_each(_more_than_a_node)),
    "GPU016": pods(
        unless_empty(
            'variables.spec.?nodeName.orValue("") != "" && variables.asksForGpus',
            '"found nodeName " + variables.spec.nodeName',
        )
    ),
    "GPU026": pods(
        unless_empty(
            'params.data.sizesKnown == "false" && variables.asksForGpus && '
            "variables.surges && variables.replicas > 0",
            '"found an update that starts new pods before it ends old ones"',
        ),
        "Deployment",
    ),
    "GPU028": pods(
        '(!("maxGpusPerContainer" in params.data) ? [] : '
        + each_container(
            f"{_HUNDREDTHS} > {_CAP.format('maxGpusPerContainer')}",
            '"more GPUs than " + params.data.maxGpusPerContainer',
        )
        + ') + (!("maxGpusPerPod" in params.data) ? [] : '
        + unless_empty(
            f"{_TOTAL} > {_CAP.format('maxGpusPerPod')}",
            '"found more GPUs in one pod than " + params.data.maxGpusPerPod',
        )
        + ")"
    ),
    # A name that only resembles that of a GPU resource counts as one, as far as CEL can tell.
    "GPU032": pods(
        in_workloads(
            f"{_NOT_OF_DAEMON_SET} && !{_MAY_ASK} ? variables.tolerations.filter(o, "
            f"variables.taints.exists(t, {tolerates('o', 't')}))"
            '.map(o, "found a toleration of GPU nodes: " + o.?key.orValue("every taint")) : []'
        )
    ),
    "GPU033": pods(
        unless_empty(
            f"variables.hostPaths.exists(h, {_SERVES_NODES}) && "
            f'variables.pools.exists(p, {_TAINTS}.exists(t, t != "" && !{_TOLERATED}))',
            '"found no toleration for the taint of a pool with GPUs"',
        ),
        "DaemonSet",
    ),
    "GPU034": pods(
        unless_empty(
            "size(variables.gpuPools) > 0 && variables.asksForGpus && size(variables.pools) == 0",
            '"found labels that no pool with GPUs has"',
        )
    ),
    "GPU039": pods(_each(_update_has_no_room), "Deployment"),
}
