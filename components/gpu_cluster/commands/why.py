"""Run `gpu-cluster why namespace/name` or `gpu-cluster why NODE`.

Print why a pod does not run, or why GPUs of a node are not usable, and what would help. The pod
may be anybody's. Its name may also be that of a controller that can't create its pod. The role of
previews is enough; the logs of containers are read if the role of the user allows it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.reading import reading
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.why_node import explain_node
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Client, Json, connect
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind
from gpu_cluster.nodes.causes.pod import cause_of, cause_of_missing
from gpu_cluster.nodes.causes.read import Reader
from gpu_rules.context import Context
from gpu_rules.faults import Fault, FaultError
from gpu_rules.kube.names import is_dns_label, is_dns_subdomain
from gpu_rules.printable import printable

UNKNOWN = "no cause found"
READY, SUCCEEDED = "its containers run and are ready", "it has ended without an error"


def named(text: str) -> tuple[str, str]:
    """Return namespace and name of the pod that a user names.

    Raises:
        FaultError: The text does not have the form `namespace/name`.
    """
    namespace, _, name = text.partition("/")
    # Check both names, because they become parts of URLs.
    if not (is_dns_label(namespace) and is_dns_subdomain(name)):
        raise FaultError(
            Fault(
                f"pod {printable(text, 120)}",
                "no namespace and name of a pod",
                "namespace/name, or the name of a node",
                "for example `gpu-cluster why default/train`",
            )
        )
    return namespace, name


@dataclass(frozen=True)
class Trust:
    """Whom a stack trusts.

    Attributes:
        namespaces: Namespaces in which only trusted people write events.
        platforms: Namespaces in which a pod with the image of a device plugin is one. None: not
            known.
    """

    namespaces: frozenset[str] = frozenset()
    platforms: frozenset[str] | None = None

    @classmethod
    def from_rules(cls, rules: Context) -> Trust:
        """Return whom the rules of a stack trust; an adopted namespace may have other pods, too."""
        adopted = {name.partition("/")[0] for name in rules.daemon_sets}
        return cls(rules.trusted_namespaces, rules.trusted_namespaces | adopted)

    def of(self, namespace: str) -> dict[str, Any]:
        """Return the effect on a pod of a namespace, as fields of `Around`."""
        return {
            "trusted_events": namespace in self.namespaces,
            "platform_namespaces": self.platforms,
        }


async def found(
    client: Client, namespace: str, name: str, answer: Answer, trust: Trust = Trust()
) -> None:
    """Read a pod and what explains it, and fill the answer.

    Args:
        namespace: Namespace of the pod.
        name: Name of the pod, or of the controller that should create it.
        answer: The JSON document; gets `pod`, `kind`, `cause`, `cure` and `unread`.
        trust: Whom the stack trusts.

    Raises:
        FaultError: No such pod exists, and nothing names a reason.
    """
    reader = Reader(client)
    # A preview's role may list pods, and not get one.
    pods = await client.list(f"namespaces/{namespace}/pods", fieldSelector=f"metadata.name={name}")
    if pods:
        around = replace(await reader.around(pods[0]), **trust.of(namespace))
        around = await reader.with_cluster(namespace, around, pods[0])
        cause, healthy = cause_of(pods[0], around), _healthy(pods[0])
    else:
        events = await reader.events(namespace)
        around = Around(events=events, **trust.of(namespace))
        around = await reader.with_cluster(namespace, around)
        cause, healthy = cause_of_missing(name, around), ""
    answer["pod"], answer["unread"] = f"{namespace}/{name}", reader.refused
    if cause is None and not pods:
        raise FaultError(_absent(namespace, name, reader.refused))
    if cause is None and not healthy:
        cause = _looked_at(pods[0], around)
    answer |= _words(cause, healthy)


def _looked_at(pod: Json, around: Around) -> Cause:
    """Return a text that says which objects were searched without a result, and what to do next."""
    counts = {
        "events": len(around.events),
        "nodes": len(around.nodes),
        "logs": len(around.logs),
    }
    counts_text = ", ".join(f"{number or 'no'} {name}" for name, number in counts.items())
    namespace, name = (printable(str(pod["metadata"][key]), 253) for key in ("namespace", "name"))
    cure = f"see `kubectl describe pod -n {namespace} {name}`, and the log of "
    if node := pod["spec"].get("nodeName"):
        cure += f"the kubelet on node {printable(str(node), 253)}"
    else:
        cure += printable(str(pod["spec"].get("schedulerName") or "kube-scheduler"), 253)
    text = f"{UNKNOWN} in its status and {counts_text}"
    return Cause(kind=Kind.UNKNOWN, text=text, cure=cure)


def _words(cause: Cause | None, healthy: str) -> dict[str, str]:
    if cause is None:
        return {"kind": "", "cause": healthy, "cure": ""}
    return {"kind": cause.kind.value, "cause": cause.text, "cure": cause.cure}


def _healthy(pod: Json) -> str:
    """Return that a pod runs or has succeeded; empty if it has done neither."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return SUCCEEDED
    states = status.get("containerStatuses") or []
    return READY if states and all(each.get("ready") for each in states) else ""


def _absent(namespace: str, name: str, unread: list[str]) -> Fault:
    unread_text = f", and {', '.join(unread)} can't be read with this role" if unread else ""
    return Fault(
        f"pod {namespace}/{name}",
        f"no such pod, and no event of a controller that can't create it{unread_text}",
        "a pod, or the controller of one",
        f"see `kubectl get pods -n {namespace}`; events are kept for an hour",
    )


def run_node(stack: Stack, name: str, answer: Answer) -> None:
    """Explain the node that a user names, and print what was found.

    Raises:
        FaultError: The node or the cluster can't be read.
    """
    reading(stack)
    desired = resolve(stack.cluster, stack.name)

    async def read() -> None:
        async with connect(desired.context) as client:
            await explain_node(client, name, desired, answer)

    asyncio.run(read())
    print(f"node {name}: {answer['cause']}")
    for finding in answer["findings"]:
        print(f"node {name}: {finding}")


def run(stack: Stack, pod: str, answer: Answer) -> None:
    """Explain the pod that a user names, and print the cause and the cure.

    Raises:
        FaultError: The pod or the cluster can't be read.
    """
    namespace, name = named(pod)
    reading(stack)
    trust = Trust.from_rules(resolve(stack.cluster, stack.name).rules)

    async def read() -> None:
        async with connect(stack.cluster.kubernetes.context) as client:
            await found(client, namespace, name, answer, trust)

    asyncio.run(read())
    print(f"pod {answer['pod']}: {answer['cause']}")
    if answer["cure"]:
        print(f"cure: {answer['cure']}")
    if answer["unread"]:
        print(f"not read, since the role does not allow it: {', '.join(answer['unread'])}")


def main(*, pod: str) -> None:
    """Explain a pod or a node of the stack's cluster; exit with 1 if that is impossible.

    Args:
        pod: Namespace and name of a pod, or the name of a node.
    """
    stack = Stack.current()
    with answering("why") as answer:
        # A name without a slash is that of a node: a pod has a namespace.
        (run_node if is_dns_subdomain(pod) else run)(stack, pod, answer)
