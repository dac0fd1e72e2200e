"""Rule GPU022: a pod that requests GPUs must not have a privileged container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .. import cel
from ..context import Context, Severity
from ..each import each_container
from ..example import POD, Example, edited
from ..gpus import gpus_of
from ..pod_spec import Container
from ..rule import Finding, Rule, Subject
from ..signs import On, Sign
from ..twin import pods
from ..unknown import at, sequence, text
from .privileged import IS_PRIVILEGED, privileged

ALL_DEVICES = frozenset({"ALL", "SYS_ADMIN", "CAP_SYS_ADMIN", "CAP_ALL"})


def _with_gpus(subject: Subject, context: Context) -> bool:
    return subject.is_workload(context) and gpus_of(subject, context).may_have


def _not_privileged(container: Container, _: Context) -> Iterator[Finding]:
    yield from privileged(container, "requests GPUs", "false")
    added = sequence(at(container.spec, "securityContext", "capabilities", "add"))
    for index, capability in enumerate(added):
        if text(capability).upper() in ALL_DEVICES:
            yield Finding(
                path=f"{container.path}.securityContext.capabilities.add[{index}]",
                found=f"{text(capability)} in a pod that requests GPUs",
                wanted="none of " + ", ".join(sorted(ALL_DEVICES)),
                cure="Add only what it needs: with these, a container can mount the node's "
                "devices.",
            )


RULE = Rule(
    id="GPU022",
    title="A pod that requests GPUs has no privileged containers",
    severity=Severity.MANDATORY,
    check=each_container(_not_privileged, when=_with_gpus),
    why="A privileged container sees every device of the node, whatever it requests. A "
    "container with the capability SYS_ADMIN can mount the devices. HAMi rejects privileged "
    "pods, too.",
    source="kubernetes issue 81256; Project-HAMi HAMi pkg/scheduler/webhook.go",
)

PRIVILEGED: Final = (
    f"({IS_PRIVILEGED} || "
    f"c.?securityContext.?capabilities.?add{cel.OR_LIST}"
    f".exists(a, a.upperAscii() in {cel.texts(ALL_DEVICES)}))"
)

TWIN = pods(
    cel.in_workloads(
        "!variables.mayHaveGpus ? [] : "
        + cel.each_container(
            PRIVILEGED, '"privileged, or with a capability like it"', "variables.judged"
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
            "      securityContext: {capabilities: {add: [SYS_NICE]}}",
        ),
    ),
    ("securityContext: {capabilities: {add: [SYS_NICE]}}", "securityContext: {privileged: true}"),
)
