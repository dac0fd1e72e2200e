"""Rule GPU049: a container with several GPUs should mount a memory volume at /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from ...kube.quantity import QuantityError, parse, show
from .. import cel
from ..each import each_pod, gpu_containers, named
from ..example import Example, pod, pod_of_several_gpus
from ..pod_claims import gpu_claims
from ..pod_spec import Container, Pod
from ..resource_names import is_device
from ..rule import Finding, Rule, Subject
from ..signs import NAMES, VOLUMES, On, Sign
from ..twin import pods
from ..unknown import UNKNOWN, at, holds_unknown, sequence, text

_SHM = "/dev/shm"  # noqa: S108  a mount path inside the container
_LEAST: Final = "1Gi"
"""Least shared memory for several GPUs: NVIDIA starts its containers with --shm-size=1g."""


def _shared_memory(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if holds_unknown(pod.spec.get("volumes")):
        return
    if pod.spec.get("hostIPC") in (True, UNKNOWN):
        return
    claimed = {
        claim.name: claim.facts.gpus if claim.facts else {}
        for claim in gpu_claims(subject, context)
    }
    memory = {
        text(at(volume, "name")): (pod.under(f"spec.volumes[{index}].emptyDir.sizeLimit"), volume)
        for index, volume in enumerate(sequence(pod.spec.get("volumes")))
        if at(volume, "emptyDir", "medium") in ("Memory", UNKNOWN)
        or text(at(volume, "hostPath", "path")).rstrip("/") == _SHM
    }
    for container in gpu_containers(subject, context):
        yield from named(container, _check_shared_memory(memory, claimed, container, context))


def _check_shared_memory(
    memory: Mapping[str, tuple[str, object]],
    claimed: Mapping[str, Mapping[str, int]],
    container: Container,
    context: Context,
) -> Iterator[Finding]:
    """Yield a finding if a container with several GPUs has no fitting volume at /dev/shm."""
    mounts = container.spec.get("volumeMounts")
    mounted = {
        text(at(mount, "name"))
        for mount in sequence(mounts)
        if text(at(mount, "mountPath")).rstrip("/") == _SHM
    }
    used = [memory[name] for name in mounted if name in memory]
    if holds_unknown(mounts):
        return
    amounts = [
        resource.quantity.units
        for name in container.resource_names
        if is_device(name, context)
        and (resource := container.effective(name))
        and resource.quantity
        and resource.quantity.whole
    ]
    amounts += _of_claims(container, claimed)
    if sum(amounts) > 1 and used:
        for path, volume in used:
            yield from _unfit(path, at(volume, "emptyDir", "sizeLimit"), container)
    elif sum(amounts) > 1:
        yield Finding(
            path=f"{container.path}.volumeMounts",
            found=f"{show(sum(amounts))} GPUs and 64 MiB of shared memory",
            wanted=f"an emptyDir of medium Memory at {_SHM}",
            cure="Mount the volume: NCCL and data loaders exchange data through shared memory.",
        )


def _unfit(path: str, size: object, container: Container) -> Iterator[Finding]:
    """Yield a finding for a size limit that is too small, or above the container's memory limit."""
    try:
        amount = None if size in (None, UNKNOWN) else parse(size)
    except QuantityError:
        return
    limit = container.limits.get("memory")
    most = limit.quantity if limit else None
    if amount and amount.units < parse(_LEAST).units:
        yield Finding(
            path=path,
            found=f"{amount} of shared memory for several GPUs",
            wanted=f"at least {_LEAST}",
            cure="Raise it: NCCL and data loaders exchange data through shared memory.",
        )
    elif amount and most and amount.units > most.units:
        yield Finding(
            path=path,
            found=f"{amount} of shared memory in a container with {most} of memory",
            wanted=f"at most {most}",
            cure="Lower it, or raise the memory limit: shared memory counts to the container's "
            "memory, and beyond the limit the container is killed.",
        )


def _of_claims(
    container: Container, claimed: Mapping[str, Mapping[str, int]]
) -> Iterator[Fraction]:
    """Yield the numbers of GPUs of the claims that a container uses as a whole.

    Of a claim with several requests, a container may use the devices of one request only.
    """
    for used in sequence(at(container.spec, "resources", "claims")):
        if at(used, "request") is None:
            yield from map(Fraction, claimed.get(text(at(used, "name")), {}).values())


RULE = Rule(
    id="GPU049",
    title="A container with several GPUs has shared memory",
    severity=Severity.ADVISORY,
    check=each_pod(_shared_memory),
    why=f"By default, {_SHM} of a container has 64 MiB, with which NCCL and PyTorch's data loaders "
    "fail or are very slow. With hostIPC, it is the node's own. A volume with less than 1Gi is "
    "little better, and what is in it counts to the memory limit of the container.",
    source="containerd default mounts; NVIDIA NCCL troubleshooting, shared memory; kubernetes "
    "documentation, Volumes, emptyDir (memory limit)",
    whole=True,
)

_DEVICE_COUNT = f"{cel.device_names('c')}.map(n, {cel.requested('c', 'n')}).sum()"

# Training jobs also mount the node's /dev/shm as a host path. Its size is half of the node's
# memory, so it counts as a memory volume.
_FITS = (
    "(!has(dyn(v.emptyDir).sizeLimit) || !isQuantity(string(dyn(v.emptyDir).sizeLimit)) || "
    f"({cel.size('string(dyn(v.emptyDir).sizeLimit)')} >= {cel.size(cel.text(_LEAST))} && "
    f'!("memory" in {cel.LIMITS} && '
    f"{cel.size('string(dyn(v.emptyDir).sizeLimit)')} > "
    f"""{cel.size(f'{cel.LIMITS}["memory"]')})))"""
)
_MEMORY_VOLUMES = (
    f'variables.volumes.filter(v, (v.?emptyDir.?medium.orValue("") == "Memory" && {_FITS}) || '
    'v.?hostPath.?path.orValue("").matches("^/dev/shm/*$"))'
)

_SHARED_MEMORY = (
    f'c.?volumeMounts{cel.OR_LIST}.exists(m, m.mountPath.matches("^/dev/shm/*$") && '
    f"{_MEMORY_VOLUMES}.exists(v, v.name == m.name))"
)

_SIGN = Sign(
    f'{cel.LIMITS}[{cel.text(GPU)}] != "1" && !('
    f'c.?volumeMounts{cel.OR_LIST}.exists(m, m.mountPath == "/dev/shm" && '
    f'{VOLUMES}.exists(v, v.name == m.name && v.?emptyDir.?medium.orValue("") == "Memory" && '
    "!has(dyn(v.emptyDir).sizeLimit))))",
    On.GPU_CONTAINER,
)

TWIN = pods(
    cel.each_container(
        f"!variables.spec.?hostIPC.orValue(false) && {_DEVICE_COUNT} > 1 && !{_SHARED_MEMORY}",
        '"several GPUs and no fitting shared memory"',
        "variables.gpuContainers",
    ),
    signs=(NAMES, _SIGN),
)

EXAMPLE = Example(
    passing=pod_of_several_gpus("nvidia.com/gpu: 2"), failing=pod(limits="nvidia.com/gpu: 2")
)
