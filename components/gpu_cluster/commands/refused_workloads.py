"""Effects of new guardrails on running workloads: refused pods, and quotas in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_cluster.change.document import QuotaUse, RefusedWorkload
from gpu_cluster.guardrails.component import GuardrailsArgs, enforcement
from gpu_cluster.kubernetes.api import ClusterError, Json, connect
from gpu_cluster.nodes.drain import workload_of
from gpu_cluster.nodes.gpu_holders import FINISHED
from gpu_cluster.settings.guardrails import Quota
from gpu_rules.admission import OPT_OUT
from gpu_rules.context import Context
from gpu_rules.kube.gpu_resources import HAMI_CORES, HAMI_MEMORY
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable
from gpu_rules.rules import TWINS, Severity, evaluate
from gpu_rules.rules.claims import OF_A_CLASS
from gpu_rules.rules.twin import Twin

DENY = "Deny"
"""Action of an admission policy that refuses objects."""


@dataclass(frozen=True, kw_only=True)
class GuardrailEffects:
    """Effects of guardrails on running workloads.

    Attributes:
        refused: The running workloads whose new pods the guardrails refuse.
        quotas: The declared quotas, and what is used of them.
        unjudged: Why the running pods could not be read. Empty: they were read.
    """

    refused: tuple[RefusedWorkload, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    unjudged: str = ""


async def guardrail_effects(context: str, args: GuardrailsArgs) -> GuardrailEffects:
    """Return the effects of the guardrails on running workloads.

    Args:
        context: Context of the kubeconfig.
        args: The guardrails, which need not be in the cluster yet.
    """
    quotas = args.guardrails.quotas
    if not is_refusing(args) and not quotas:
        return GuardrailEffects()
    found: list[Json] = []
    used: Counter[tuple[str, str]] = Counter()
    try:
        async with connect(context) as client:
            names = [
                each["metadata"]["name"]
                for each in await client.list("namespaces")
                if each["metadata"].get("labels", {}).get(OPT_OUT) == "exempt"
            ]
            left_out = {*enforcement(args).excluded, *names}
            async for page in client.pages("pods"):
                if is_refusing(args):
                    found += [pod for pod in page if _is_refused(pod, args.context, left_out)]
                used.update(requested(page, {quota.namespace for quota in quotas}))
    except ClusterError as error:
        return GuardrailEffects(quotas=quota_uses(quotas, None), unjudged=printable(str(error)))
    return GuardrailEffects(
        refused=workloads_of(found, args.context), quotas=quota_uses(quotas, used)
    )


def requested(pods: Iterable[Json], namespaces: Collection[str]) -> Counter[tuple[str, str]]:
    """Return how much of each resource the pods of namespaces request: by namespace and resource.

    Finished pods count for no quota (Kubernetes, pkg/quota/v1/evaluator/core/pods.go).
    """
    used: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        if namespace in namespaces and pod.get("status", {}).get("phase") not in FINISHED:
            used.update({(namespace, name): n for name, n in device_requests(pod).items()})
    return used


def quota_uses(
    quotas: Iterable[Quota], used: Mapping[tuple[str, str], int] | None
) -> tuple[QuotaUse, ...]:
    """Return the declared quotas and their present usage.

    Args:
        used: Requests by namespace and resource. None: unknown. Devices of claims, and what HAMi
            counts, are not in it.
    """
    return tuple(
        QuotaUse(
            namespace=quota.namespace,
            resource=name,
            limit=limit,
            used=used.get((quota.namespace, name), 0)
            if used is not None and _is_counted(name)
            else None,
        )
        for quota in quotas
        for name, limit in sorted(quota.resources.items())
    )


def _is_counted(resource: str) -> bool:
    return not resource.endswith(OF_A_CLASS) and resource not in (HAMI_MEMORY, HAMI_CORES)


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
