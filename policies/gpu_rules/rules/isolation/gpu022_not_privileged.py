"""Rule GPU022: a pod that requests GPUs must not have a privileged container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...context import Context, Severity
from .. import cel
from ..agents import only_watches
from ..each import each_pod, named
from ..example import POD, Example, edited
from ..gpus import gpus_of
from ..pod_spec import Container, Pod
from ..rule import Finding, Rule, Subject
from ..signs import On, Sign
from ..twin import pods
from ..unknown import at, sequence, text
from .privileged import IS_PRIVILEGED, privileged

CAPABILITIES: Final = (
    # Those that Kubernetes' Pod Security Standard `baseline` allows: k8s.io/pod-security-admission
    # policy/check_capabilities_baseline.go at 8f84a87.
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    # RDMA pins the memory that it transfers; the capability lifts only the limit of locked memory
    # (capabilities(7)).
    "IPC_LOCK",
)
"""Capabilities that a container of a pod with GPUs may add."""
_WITHOUT_DEVICES: Final = frozenset(
    {"NET_ADMIN", "NET_RAW", "NET_BROADCAST", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "PERFMON"}
    | {"AUDIT_READ", "BLOCK_SUSPEND", "LEASE", "SYSLOG", "WAKE_ALARM", "SYS_PACCT"}
)
"""Capabilities beyond these that give no files, memory or devices of others (capabilities(7))."""


def _may_use_gpus(subject: Subject, context: Context) -> bool:
    return subject.is_workload(context) and gpus_of(subject, context).may_have


def _check_privileged(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    is_agent = only_watches(subject, context)
    for container in pod.containers:
        for finding in named(container, _not_privileged(container)):
            yield replace(finding, is_opinion=finding.is_opinion or is_agent)


def _not_privileged(container: Container) -> Iterator[Finding]:
    yield from privileged(container, "requests GPUs", "false")
    added = sequence(at(container.spec, "securityContext", "capabilities", "add"))
    for index, capability in enumerate(added):
        if text(capability) and capability not in CAPABILITIES:
            yield Finding(
                path=f"{container.path}.securityContext.capabilities.add[{index}]",
                found=f"{text(capability)[:80]} in a pod that requests GPUs",
                wanted="only capabilities of the Pod Security Standard baseline, and IPC_LOCK",
                cure="Remove it: with capabilities beyond these, a container can leave its "
                "isolation and reach other GPUs of the node.",
                is_opinion=text(capability).removeprefix("CAP_") in _WITHOUT_DEVICES,
            )


RULE = Rule(
    id="GPU022",
    title="A pod that requests GPUs has no privileged containers",
    severity=Severity.MANDATORY,
    check=each_pod(_check_privileged, when=_may_use_gpus),
    opinions="capabilities that give no files, memory or devices of others, such as NET_ADMIN, and "
    "for DaemonSets that only see the GPUs of other claims (adminAccess)",
    why="A privileged container sees every device of the node, whatever it requests. A "
    "container with a capability such as SYS_ADMIN, SYS_MODULE or SYS_PTRACE can get the devices "
    "by the kernel or by another process. So containers may add only the capabilities of the Pod "
    "Security Standard baseline, and IPC_LOCK, which RDMA needs. HAMi rejects privileged pods, "
    "too.",
    source="kubernetes issue 81256; Project-HAMi HAMi pkg/scheduler/webhook.go; k8s.io/"
    "pod-security-admission policy/check_capabilities_baseline.go",
)

PRIVILEGED: Final = (
    f"({IS_PRIVILEGED} || "
    f"c.?securityContext.?capabilities.?add{cel.OR_LIST}"
    f".exists(a, !(a in {cel.texts(CAPABILITIES)})))"
)

TWIN = pods(
    cel.in_workloads(
        "!variables.mayHaveGpus ? [] : "
        + cel.each_container(
            PRIVILEGED, '"privileged, or with a capability beyond baseline"', "variables.judged"
        )
    ),
    ephemeral=True,
    signs=(Sign(PRIVILEGED, On.CONTAINER),),
)

EXAMPLE = Example.edited(
    edited(
        POD,
        (
            "image: registry.example.com/cuda:13.0",
            "image: registry.example.com/cuda:13.0\n"
            "      securityContext: {capabilities: {add: [IPC_LOCK]}}",
        ),
    ),
    ("securityContext: {capabilities: {add: [IPC_LOCK]}}", "securityContext: {privileged: true}"),
)
