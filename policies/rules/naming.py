"""Names of extended resources in containers, and what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import Role
from policies.rules.quantity import show
from policies.rules.resource_names import HAMI_PERCENTAGE, MIG, acceptable, meant
from policies.rules.rule import Finding, Rule, Subject

_SHOWN = 80  # characters of a name


def _accepted(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        for part, listed in (("limits", container.limits), ("requests", container.requests)):
            for name in sorted(listed):
                if container.role is not Role.EPHEMERAL and not acceptable(name):
                    yield Finding(
                        path=f"{container.path}.resources.{part}[{name[:_SHOWN]}]",
                        found="a name that the API server refuses",
                        wanted="cpu, memory, ephemeral-storage, hugepages-… or <domain>/<name>",
                        cure="Write it as the device plugin advertises it, such as nvidia.com/gpu.",
                        container=container.name,
                    )


def _spelled(subject: Subject, context: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        for name in sorted(container.resource_names):
            right = meant(name, context)
            if right is not None:
                part = "limits" if name in container.limits else "requests"
                yield Finding(
                    path=f"{container.path}.resources.{part}[{name}]",
                    found=name,
                    wanted=right,
                    cure="No device plugin advertises this name, so the pod would stay Pending.",
                    container=container.name,
                )


def _percentage(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        resource = container.effective(HAMI_PERCENTAGE)
        if resource and resource.quantity and resource.quantity.units > 100:
            yield Finding(
                path=resource.path,
                found=str(resource.quantity),
                wanted="0 to 100",
                cure="It is a part of each device's memory; for MiB use nvidia.com/gpumem.",
                container=container.name,
            )


def _one_mig(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        asked = [
            resource
            for name in sorted(container.resource_names)
            if name.startswith(MIG) and (resource := container.effective(name))
        ]
        total = sum(each.quantity.units for each in asked if each.quantity)
        if total > 1:
            yield Finding(
                path=asked[0].path,
                found=f"{show(total)} MIG devices in one container",
                wanted="1",
                cure="Use a larger profile, or one container for each device.",
                container=container.name,
            )


RULES = (
    Rule(
        id="GPU014",
        title="GPU resources are spelled as they are advertised",
        severity=Severity.MANDATORY,
        check=_spelled,
        why="The API server accepts any qualified name. alpha.kubernetes.io/nvidia-gpu is even "
        "taken for a native resource, which needs no limit and no whole number. No node has such "
        "a resource, so the pod stays Pending for ever.",
        source="kubernetes v1.34.4 pkg/apis/core/helper/helpers.go IsNativeResource; NVIDIA "
        "k8s-device-plugin internal/resource (MIG names)",
    ),
    Rule(
        id="GPU027",
        title="A resource name is one that the API server takes",
        severity=Severity.MANDATORY,
        check=_accepted,
        why="Without a domain only Kubernetes' own resources are taken; with one, the name must "
        "follow the form of labels and not begin with `requests.`, which belongs to quotas.",
        source="kubernetes v1.34.4 pkg/apis/core/validation/validation.go "
        "validateContainerResourceName; pkg/apis/core/helper/helpers.go IsExtendedResourceName",
    ),
    Rule(
        id="GPU045",
        title="A container uses one MIG device",
        severity=Severity.ADVISORY,
        check=_one_mig,
        why="A CUDA process sees one MIG device only; further ones are held and stay idle.",
        source="NVIDIA MIG user guide, CUDA device enumeration; k8s-device-plugin v0.7.0 notes",
    ),
    Rule(
        id="GPU061",
        title="gpumem-percentage is 0 to 100",
        severity=Severity.MANDATORY,
        check=_percentage,
        why="HAMi refuses a percentage of a device's memory outside this range.",
        source="Project-HAMi HAMi pkg/device/nvidia/device.go GenerateResourceRequests",
    ),
)
