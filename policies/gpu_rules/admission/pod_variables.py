"""CEL variables for pods and pod templates, computed from the CEL variable `spec` (a pod spec)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..rules.cel import (
    NAMES,
    OR_LIST,
    OR_MAP,
    OWN_DEVICES,
    POOL_TAINTS,
    SIDECAR,
    TOLERATED,
    asked,
    asks_for,
    claim_name,
    device_names,
    effective,
    is_gpu,
    parameter,
    request,
    resources,
    size,
    together,
)
from ..rules.gpus import GPUS_VARIABLES
from ..rules.host_paths import plain_path_cel
from ..rules.pod_claims import of_other_devices_cel


def _request_variables() -> dict[str, str]:
    variables: dict[str, str] = {}
    for variable, name in NAMES.items():
        quantity = asked("c", f'"{name}"')
        variables |= {
            f"{variable}Starting": f"variables.init.map(c, {quantity})",
            f"{variable}Sidecars": f"variables.init.map(c, {SIDECAR} ? {quantity} : 0)",
            f"{variable}Request": request(
                f'"{name}"',
                quantity,
                f"variables.{variable}Starting",
                f"variables.{variable}Sidecars",
            ),
        }
    return variables


_MEMORY = size(effective('"memory"'))
_LABELS = 'variables.facts[p + ".labels"].split(",")'
_TERMS = (
    "variables.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
    f".?nodeSelectorTerms{OR_LIST}"
)


def _bound_cel(comparison: str) -> str:
    number, integer = "l.substring(size(e.key) + 1)", '.matches("^[+-]?[0-9]{1,18}$")'
    return (
        f'{_LABELS}.exists(l, l.startsWith(e.key + "=") && '
        f"{number}{integer} && e.values[0]{integer} && "
        f"int({number}) {comparison} int(e.values[0]))"
    )


# CEL that is true if nodes of pool `p` may satisfy the node selector expression `e`. Nodes may have
# labels that the pool doesn't declare. `gpu_rules.rules.pools` makes the same decision in Python.
_FITS = (
    f'(!{_LABELS}.exists(l, l.startsWith(e.key + "=")) || '
    f'(e.operator == "In" ? e.values.exists(v, e.key + "=" + v in {_LABELS}) : '
    f'e.operator == "NotIn" ? !e.values.exists(v, e.key + "=" + v in {_LABELS}) : '
    f'e.operator == "Gt" ? {_bound_cel(">")} : e.operator == "Lt" ? {_bound_cel("<")} : '
    'e.operator == "Exists"))'
)
_CANDIDATE = (
    f"variables.nodeSelector.all(k, {_LABELS}.all(l, "
    '!l.startsWith(k + "=") || l == k + "=" + variables.nodeSelector[k])) && '
    "(size(variables.terms) == 0 || variables.terms.exists(t, "
    f"size(t.?matchExpressions{OR_LIST}) + size(t.?matchFields{OR_LIST}) > 0 && "
    f"t.?matchExpressions{OR_LIST}.all(e, {_FITS})))"
)
_OTHER = of_other_devices_cel(claim_name("r"))
_USES_CLAIM = (
    f"c.?resources.?claims{OR_LIST}.exists(u, variables.gpuClaims.exists(r, r.name == u.name))"
)

POD_VARIABLES: Final[Mapping[str, str]] = {
    "init": f"variables.spec.?initContainers{OR_LIST}",
    # `dyn` is needed because the type check gives containers and init containers different types.
    "containers": "dyn(variables.spec.containers) + dyn(variables.init)",
    "judged": "variables.containers",
    "overhead": resources("variables.spec", "overhead"),
    "tolerations": f"variables.spec.?tolerations{OR_LIST}",
    "nodeSelector": f"variables.spec.?nodeSelector{OR_MAP}",
    "terms": _TERMS,
    "volumes": f"variables.spec.?volumes{OR_LIST}",
    "hostPaths": 'variables.volumes.filter(v, v.?hostPath.?path.orValue("") != "")'
    f".map(v, {plain_path_cel('v.hostPath.path')})",
    # The host paths that at least one container mounts without readOnly.
    "writtenPaths": 'variables.volumes.filter(v, v.?hostPath.?path.orValue("") != "" && '
    f"variables.containers.exists(c, c.?volumeMounts{OR_LIST}.exists(m, m.name == v.name && "
    "!m.?readOnly.orValue(false))))"
    f".map(v, {plain_path_cel('v.hostPath.path')})",
    "gpuResources": parameter("gpuResources"),
    "ownDevices": OWN_DEVICES,
    # CEL can't read the claim, which is another object. So each claim counts as a GPU claim, unless
    # the cluster facts say that it is for other devices.
    "gpuClaims": f"variables.spec.?resourceClaims{OR_LIST}.filter(r, !{_OTHER})",
    "gpuContainers": f"variables.containers.filter(c, {asks_for(is_gpu('n'))} || {_USES_CLAIM})",
    **GPUS_VARIABLES,
    # The names are computed once and kept in a variable, because the order of a map's keys differs
    # between evaluations.
    "deviceNames": f"variables.containers.map(c, {device_names('c')}.join(','))"
    '.join(",").split(",")',
    "gpuPools": parameter("pools"),
    # GPU pools that have taints and whose taints the pod tolerates.
    "reachedPools": 'variables.gpuPools.filter(p, variables.facts[p + ".taints"] != "" && '
    f"{POOL_TAINTS}.all(t, {TOLERATED}))",
    "pools": f"variables.gpuPools.filter(p, {_CANDIDATE})",
    **_request_variables(),
    # Sizes in bytes; the variables above are numbers of devices.
    "memoryStarting": f"variables.init.map(c, {_MEMORY})",
    "memorySidecars": f"variables.init.map(c, {SIDECAR} ? {_MEMORY} : 0.0)",
    "memoryRequest": together(
        _MEMORY, "variables.memoryStarting", "variables.memorySidecars", "0.0"
    ),
}
