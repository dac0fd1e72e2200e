"""Running workloads whose pods new guardrails refuse: judged before the guardrails are enforced."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from gpu_cluster.change.document import RefusedWorkload
from gpu_cluster.guardrails.component import GuardrailsArgs, enforcement
from gpu_cluster.kubernetes.api import ClusterError, Json, connect
from gpu_cluster.nodes.drain import workload_of
from gpu_cluster.nodes.gpu_holders import FINISHED
from gpu_rules.admission import OPT_OUT
from gpu_rules.context import Context
from gpu_rules.printable import printable
from gpu_rules.rules import TWINS, Severity, evaluate
from gpu_rules.rules.twin import Twin

DENY = "Deny"
"""Action of an admission policy that refuses objects."""


async def refused_workloads(
    context: str, args: GuardrailsArgs
) -> tuple[tuple[RefusedWorkload, ...], str]:
    """Return the running workloads that the guardrails refuse, and why they were not judged.

    Args:
        context: Context of the kubeconfig.
        args: The guardrails, which need not be in the cluster yet.
    """
    if not is_refusing(args):
        return (), ""
    found: list[Json] = []
    try:
        async with connect(context) as client:
            names = [
                each["metadata"]["name"]
                for each in await client.list("namespaces")
                if each["metadata"].get("labels", {}).get(OPT_OUT) == "exempt"
            ]
            left_out = {*enforcement(args).excluded, *names}
            async for page in client.pages("pods"):
                found += [pod for pod in page if _is_refused(pod, args.context, left_out)]
    except ClusterError as error:
        return (), printable(str(error))
    return workloads_of(found, args.context), ""


def is_refusing(args: GuardrailsArgs) -> bool:
    """Return whether the guardrails refuse objects that violate a mandatory rule."""
    return DENY in enforcement(args).actions[Severity.MANDATORY]


def workloads_of(pods: Iterable[Json], context: Context) -> tuple[RefusedWorkload, ...]:
    """Return the workloads of refused pods, each once, sorted by namespace and name."""
    counts: dict[tuple[str, str, str], list[Json]] = {}
    for pod in pods:
        counts.setdefault(workload_of(pod), []).append(pod)
    return tuple(
        RefusedWorkload(
            kind=printable(kind),
            namespace=printable(namespace),
            name=printable(name),
            pods=len(members),
            why=printable(violations_of(members[0], context)[0]),
        )
        for (namespace, name, kind), members in sorted(counts.items())
    )


def violations_of(pod: Json, context: Context) -> list[str]:
    """Return the violations for which admission refuses a running pod at its next start."""
    manifest = {**pod, "apiVersion": "v1", "kind": "Pod"}
    return [
        f"{each.rule.id} {each.rule.title}: {each.path}: found {each.found}; wanted: {each.wanted}"
        for each in evaluate(manifest, replace(context, observed=True))
        if each.severity is Severity.MANDATORY and isinstance(TWINS[each.rule.id], Twin)
    ]


def _is_refused(pod: Json, context: Context, left_out: Collection[str]) -> bool:
    if pod["metadata"]["namespace"] in left_out:
        return False
    if pod.get("status", {}).get("phase") in FINISHED:
        return False
    return bool(violations_of(pod, context))
