"""GPU workloads that waste GPUs, or fail late, in ways that nothing else reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.pod_spec import Container, Pod, Role
from policies.rules.quantity import show
from policies.rules.replicas import number
from policies.rules.resource_names import is_device, is_gpu
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, holds_unknown, sequence, text

_JOBS = {"Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
_MOST_RETRIES = 10
_SHM = "/dev/shm"  # noqa: S108  a mount path inside the container
_TAG = re.compile(r"[\w][\w.-]{0,127}")


def gpu_containers(pod: Pod, context: Context) -> Iterator[Container]:
    """The containers that ask for GPUs by themselves."""
    for container in pod.containers:
        for name in container.resource_names if container.role is not Role.EPHEMERAL else ():
            asked = container.effective(name)
            if is_gpu(name, context) and asked and asked.quantity and asked.quantity.milli > 0:
                yield container
                break


def _deadline(subject: Subject, context: Context) -> Iterator[Finding]:
    place = _JOBS.get(subject.kind)
    if place is None or subject.pod is None or not gpu_requests(subject.pod, context):
        return
    job = at(subject.manifest, *place)
    key = "activeDeadlineSeconds"
    if at(job, key) is None and subject.pod.spec.get(key) is None:
        yield Finding(
            path=".".join((*place, key)),
            found="none",
            wanted="a number of seconds",
            cure="Set one: a hanging process holds its GPUs until somebody looks.",
        )
    retries = number(at(job, "backoffLimit"))
    if retries is not None and retries > _MOST_RETRIES:
        yield Finding(
            path=".".join((*place, "backoffLimit")),
            found=str(retries),
            wanted=f"at most {_MOST_RETRIES}",
            cure="A failing program takes its GPUs again and again; the default is 6.",
        )


def _shared_memory(subject: Subject, context: Context) -> Iterator[Finding]:
    pod = subject.pod
    if pod is None or holds_unknown(pod.spec.get("volumes")):
        return
    memory = {
        text(at(volume, "name"))
        for volume in sequence(pod.spec.get("volumes"))
        if at(volume, "emptyDir", "medium") in ("Memory", UNKNOWN)
    }
    for container in gpu_containers(pod, context):
        amounts = [
            resource.quantity.units
            for name in container.resource_names
            if is_device(name, context)
            and (resource := container.effective(name))
            and resource.quantity
        ]
        mounts = container.spec.get("volumeMounts")
        mounted = {
            text(at(mount, "name"))
            for mount in sequence(mounts)
            if text(at(mount, "mountPath")).rstrip("/") == _SHM
        }
        if sum(amounts) > 1 and not holds_unknown(mounts) and not mounted & memory:
            yield Finding(
                path=f"{container.path}.volumeMounts",
                found=f"{show(sum(amounts))} GPUs and 64 MiB of shared memory",
                wanted=f"an emptyDir of medium Memory at {_SHM}",
                cure="Mount one: NCCL and data loaders move data between GPUs through it.",
                container=container.name,
            )


def _sized(subject: Subject, context: Context) -> Iterator[Finding]:
    for container in gpu_containers(subject.pod, context) if subject.pod else ():
        if not (container.requests_known and container.limits_known):
            continue
        for name in ("cpu", "memory"):
            if container.effective(name) is None:
                yield Finding(
                    path=f"{container.path}.resources.requests[{name}]",
                    found="none",
                    wanted=f"a request of {name}",
                    cure="Without it others may leave the GPU waiting for cpu or memory.",
                    container=container.name,
                )
        request, limit = container.effective("memory"), container.limits.get("memory")
        if request and request.quantity and not (limit and limit.amount is UNKNOWN):
            given = limit.quantity.milli if limit and limit.quantity else None
            if given != request.quantity.milli:
                yield Finding(
                    path=f"{container.path}.resources.limits[memory]",
                    found=str(limit.quantity) if limit and limit.quantity else "none",
                    wanted=f"{request.quantity}, equal to the request",
                    cure="Memory beyond the request is taken back by ending the process.",
                    container=container.name,
                )


def _fixed_image(subject: Subject, context: Context) -> Iterator[Finding]:
    for container in gpu_containers(subject.pod, context) if subject.pod else ():
        image = text(container.spec.get("image"))
        if image and not pinned(image):
            yield Finding(
                path=f"{container.path}.image",
                found="an image without a fixed version",
                wanted="a tag other than latest, or a digest",
                cure="Name the version: CUDA in the image must fit the driver on the nodes.",
                container=container.name,
            )


def pinned(image: str) -> bool:
    """Whether an image names a digest, or a tag other than `latest`."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return digest.startswith("sha256:") or bool(_TAG.fullmatch(tag) and tag != "latest")


def _daemon_set(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind == "DaemonSet" and subject.pod:
        for name, amount in gpu_requests(subject.pod, context).items():
            yield Finding(
                path=subject.pod.under("spec"),
                found=f"{show(amount)} {name} in a DaemonSet",
                wanted="no GPUs",
                cure="It holds them on every node; use a Deployment or a Job.",
            )


RULES = (
    Rule(
        id="GPU024",
        title="A DaemonSet holds no GPUs",
        severity=Severity.ADVISORY,
        check=_daemon_set,
        why="Each of its pods takes GPUs of its node for as long as the DaemonSet lives.",
        source="kubernetes v1.34.4 pkg/controller/daemon",
    ),
    Rule(
        id="GPU048",
        title="A GPU Job ends",
        severity=Severity.ADVISORY,
        check=_deadline,
        why="A Job without activeDeadlineSeconds holds its GPUs for as long as its process hangs; "
        "a high backoffLimit takes them again for every failure.",
        source="kubernetes v1.34.4 pkg/controller/job; gatekeeper-library practice",
        whole=True,
    ),
    Rule(
        id="GPU049",
        title="A container with several GPUs has shared memory",
        severity=Severity.ADVISORY,
        check=_shared_memory,
        why=f"{_SHM} of a container is 64 MiB; NCCL and PyTorch's data loaders fail or crawl.",
        source="containerd default mounts; NVIDIA NCCL troubleshooting, shared memory",
        whole=True,
    ),
    Rule(
        id="GPU050",
        title="A GPU container asks for cpu and memory",
        severity=Severity.ADVISORY,
        check=_sized,
        why="Without requests its node fills with others, and the GPU waits for data. Memory with "
        "a limit above its request is the first to be ended when the node runs short.",
        source="kubernetes v1.34.4 pkg/kubelet/qos; gatekeeper-library practice",
        whole=True,
    ),
    Rule(
        id="GPU051",
        title="A GPU container's image has a fixed version",
        severity=Severity.ADVISORY,
        check=_fixed_image,
        why="An image's CUDA needs at least a certain driver; `latest` changes under a cluster "
        "whose driver does not.",
        source="NVIDIA CUDA compatibility guide; kubernetes v1.34.4 pkg/util/parsers",
    ),
)
