"""Rule GPU010: GPUs must be requested by containers, not in the pod-level resources."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.names import is_extended_resource
from ..each import each_pod
from ..example import POD, Example
from ..pod_spec import Pod, resource_list
from ..resource_names import is_gpu
from ..rule import Finding, Rule, Subject
from ..twin import ENFORCED
from ..unknown import mapping
from . import VALIDATION


def _not_pod_level(pod: Pod, _: Subject, context: Context) -> Iterator[Finding]:
    resources = mapping(pod.spec.get("resources"))
    for section in ("limits", "requests"):
        path = pod.under(f"spec.resources.{section}")
        for name, resource in resource_list(resources.get(section), path).items():
            if is_gpu(name, context) or is_extended_resource(name):
                yield Finding(
                    path=resource.path,
                    found="a device in the resources of the pod as a whole",
                    wanted="devices in the resources of a container",
                    cure="Move the entry to limits of the container that uses the device.",
                )


RULE = Rule(
    id="GPU010",
    title="GPUs are requested by containers, not by the pod as a whole",
    severity=Severity.MANDATORY,
    check=each_pod(_not_pod_level),
    why="The resources of a pod as a whole (spec.resources) can only be cpu, memory and huge "
    "pages; the API server rejects other resources.",
    source=f"{VALIDATION} validatePodResourceName",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    (
        "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
        "resources:\n    limits: {nvidia.com/gpu: 1}",
    ),
    ("memory: 32Gi, nvidia.com/gpu: 1", "memory: 32Gi"),
)
