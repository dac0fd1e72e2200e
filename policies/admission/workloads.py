"""The twins of the rules about workloads that waste GPUs or fail late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.cel import asked, each_container, is_device, limits, requests, unless_empty
from policies.admission.twin import Twin, pods

_LIMITS, _REQUESTS = limits("c"), requests("c")
_DEVICE_COUNT = f"{_LIMITS}.filter(n, {is_device('n')}).map(n, {asked('c', 'n')}).sum()"
_MEMORY_VOLUMES = 'variables.volumes.filter(v, v.?emptyDir.?medium.orValue("") == "Memory")'
_SHARED_MEMORY = (
    'c.?volumeMounts.orValue([]).exists(m, m.mountPath.matches("^/dev/shm/*$") && '
    f"{_MEMORY_VOLUMES}.exists(v, v.name == m.name))"
)


def _names(resource: str) -> str:
    return f'("{resource}" in {_LIMITS} || "{resource}" in {_REQUESTS})'


_MEMORY = f'quantity({_REQUESTS}[?"memory"].orValue({_LIMITS}[?"memory"].orValue("0")))'
_TAG = "^([^@]*/)?[^@/:]*:"
PINNED = (
    '(c.image.matches("^[^@]*@sha256:") || '
    rf'(c.image.matches("{_TAG}[\\w][\\w.-]{{0,127}}(@|$)") && '
    f'!c.image.matches("{_TAG}latest(@|$)")))'
)

TWINS: Final[Mapping[str, Twin]] = {
    "GPU024": pods(
        unless_empty("variables.asksForGpus", '"found GPUs in a DaemonSet"'), "DaemonSet"
    ),
    "GPU048": pods(
        "!variables.asksForGpus ? [] : ("
        + unless_empty(
            "!has(variables.job.activeDeadlineSeconds) && "
            "!has(variables.spec.activeDeadlineSeconds)",
            '"found no activeDeadlineSeconds"',
        )
        + ") + ("
        + unless_empty("variables.job.?backoffLimit.orValue(6) > 10", '"found a high backoffLimit"')
        + ")",
        "CronJob",
        "Job",
    ),
    "GPU049": pods(
        each_container(
            f"{_DEVICE_COUNT} > 1 && !{_SHARED_MEMORY}",
            '"several GPUs and 64 MiB of shared memory"',
            "variables.gpuContainers",
        )
    ),
    "GPU050": pods(
        each_container(
            f"!{_names('cpu')} || !{_names('memory')} || "
            f'!("memory" in {_LIMITS}) || {_MEMORY}.compareTo(quantity({_LIMITS}["memory"])) != 0',
            '"no request of cpu or memory, or memory without an equal limit"',
            "variables.gpuContainers",
        )
    ),
    "GPU051": pods(
        each_container(
            f'c.?image.orValue("") != "" && !{PINNED}',
            '"an image without a fixed version"',
            "variables.gpuContainers",
        )
    ),
}
