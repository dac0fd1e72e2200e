"""TKEStack's vcuda resources: parts of a GPU in hundredths, its memory in blocks of 256 MiB."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import Role
from policies.rules.resource_names import VCUDA_CORE, VCUDA_MEMORY, is_vcuda
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, mapping, text

_ALLOCATOR = "tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go allocateOne"
_HUNDREDTHS = re.compile("0*([1-9][0-9]?|100)")
_ASSIGNED = ("tencent.com/predicate-", "tencent.com/gpu-assigned")


def _core_steps(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        core = container.effective(VCUDA_CORE)
        if core is None or core.quantity is None or not core.quantity.whole:
            continue
        units = core.quantity.units
        if units == 0 or (units > 100 and units % 100):
            yield Finding(
                path=core.path,
                found=str(core.quantity),
                wanted="1 to 100, or a multiple of 100",
                cure="100 is one whole GPU: ask for a part of one, or for whole ones.",
                container=container.name,
            )


def _memory_with_part(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        core = container.effective(VCUDA_CORE)
        memory = container.effective(VCUDA_MEMORY)
        if core is None or core.quantity is None or not 0 < core.quantity.units < 100:
            continue
        known = container.limits_known and container.requests_known
        missing = memory is None and known
        if missing or (memory and memory.quantity and memory.quantity.milli <= 0):
            yield Finding(
                path=f"{container.path}.resources.limits[{VCUDA_MEMORY}]",
                found="no memory" if memory is None else str(memory.quantity),
                wanted="1 or more (blocks of 256 MiB)",
                cure=f"Name {VCUDA_MEMORY} beside {VCUDA_CORE} in the same container.",
                container=container.name,
            )


def _core_with_memory(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        memory = container.effective(VCUDA_MEMORY)
        known = container.limits_known and container.requests_known
        if memory is None or memory.quantity is None or memory.quantity.milli <= 0 or not known:
            continue
        if container.effective(VCUDA_CORE) is None:
            yield Finding(
                path=memory.path,
                found=f"{memory.quantity} without {VCUDA_CORE}",
                wanted=f"{VCUDA_CORE} in the same container",
                cure=f"Name {VCUDA_CORE} too: memory alone gets no device, silently.",
                container=container.name,
            )


def _not_in_init(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        if container.role in (Role.INIT, Role.SIDECAR):
            for name in sorted(filter(is_vcuda, container.resource_names)):
                yield Finding(
                    path=f"{container.path}.resources",
                    found=f"{name} in an {Role.INIT}",
                    wanted=f"{name} in containers only",
                    cure="Move the GPU work to a container: gpu-manager looks at no others.",
                    container=container.name,
                )


def _not_preassigned(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    for key in mapping(subject.pod.metadata.get("annotations")):
        if key.startswith(_ASSIGNED):
            yield Finding(
                path=subject.pod.under(f"metadata.annotations[{key}]"),
                found="an annotation that gpu-admission sets",
                wanted="none",
                cure="Remove it; it was probably copied from a pod that ran.",
            )


def _one_manager(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    names = {name for each in subject.pod.containers for name in each.resource_names}
    nvidia = sorted(name for name in names if name.startswith("nvidia.com/"))
    tencent = sorted(filter(is_vcuda, names))
    if nvidia and tencent:
        yield Finding(
            path=subject.pod.under("spec"),
            found=f"{nvidia[0]} and {tencent[0]} in one pod",
            wanted="GPUs from one device plugin",
            cure="Keep one of them: two plugins know nothing of each other's devices.",
        )


def _limit_annotation(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    key = "tencent.com/vcuda-core-limit"
    value = at(subject.pod.metadata, "annotations", key)
    if value is None or value is UNKNOWN:
        return
    if not _HUNDREDTHS.fullmatch(text(value)):
        yield Finding(
            path=subject.pod.under(f"metadata.annotations[{key}]"),
            found="a value that is not text with a number from 1 to 100",
            wanted='text such as "50"',
            cure="Quote the number: annotations are text.",
        )


RULES = (
    Rule(
        id="GPU005",
        title="vcuda-core is 1 to 100 or a multiple of 100",
        severity=Severity.MANDATORY,
        check=_core_steps,
        why="100 cores are one GPU. gpu-manager gives a part of one GPU or several whole ones; "
        "150 passes the API server and the scheduler, and then the kubelet ends the pod with "
        "UnexpectedAdmissionError.",
        source=_ALLOCATOR,
    ),
    Rule(
        id="GPU006",
        title="A part of a GPU names its memory",
        severity=Severity.MANDATORY,
        check=_memory_with_part,
        why="With less than 100 cores gpu-manager needs vcuda-memory in the same container, or the "
        "kubelet ends the pod with UnexpectedAdmissionError.",
        source=_ALLOCATOR,
        whole=True,
    ),
    Rule(
        id="GPU018",
        title="vcuda-memory comes with vcuda-core",
        severity=Severity.MANDATORY,
        check=_core_with_memory,
        why="gpu-manager answers a request for memory alone with no device and no error.",
        source="tkestack gpu-manager pkg/server/vmemory.go Allocate",
        whole=True,
    ),
    Rule(
        id="GPU019",
        title="vcuda is asked for by containers only",
        severity=Severity.MANDATORY,
        check=_not_in_init,
        why="gpu-manager looks for the pod's containers alone; an init container or sidecar that "
        "asks for vcuda ends with `candidate pod not found`.",
        source="tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go Allocate",
    ),
    Rule(
        id="GPU020",
        title="No annotations that gpu-admission sets",
        severity=Severity.MANDATORY,
        check=_not_preassigned,
        why="gpu-admission refuses a pod that carries its annotations already: `had been "
        "predicated`. They come along when a live pod is copied.",
        source="tkestack gpu-admission pkg/predicate/gpu_predicate.go",
    ),
    Rule(
        id="GPU021",
        title="A pod gets its GPUs from one device plugin",
        severity=Severity.MANDATORY,
        check=_one_manager,
        why="NVIDIA's plugin and gpu-manager each hand out the same /dev/nvidiaN without knowing "
        "of the other.",
        source="tkestack gpu-manager pkg/services/allocator; NVIDIA k8s-device-plugin internal/rm",
    ),
    Rule(
        id="GPU025",
        title="vcuda-core-limit is text from 1 to 100",
        severity=Severity.ADVISORY,
        check=_limit_annotation,
        why="Annotations are text; a bare number is refused by the API server.",
        source="tkestack gpu-manager README, pkg/types/types.go VCoreLimitAnnotation",
    ),
)
