"""Ask the API server whether admission takes the objects of the platform's chart: a dry run.

Other people's admission policies, webhooks and Pod Security Admission may refuse what Helm creates.
Helm would notice it after the run has changed hosts and nodes. A dry run stores nothing (Kubernetes
documentation, "Dry-run"). It needs the rights of a deployment, so a preview does not ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes.causes.cures import refusal_cure
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

APPS = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
"""Kinds of objects that are tried, in the API group `apps`, each with the pod of its template."""
DENIED = re.compile(
    r"denied( the)? request|violates PodSecurity|exceeded quota|failed quota|"
    r"(maximum|minimum) \S+ usage per"
)
"""Words of an admission that refuses an object, in contrast to a missing right or object.

Sources: k8s.io/apiserver v0.37.2 pkg/admission/plugin/policy/validating/dispatcher.go,
pkg/util/webhook/error.go, plugin/resourcequota/controller.go; k8s.io/pod-security-admission v0.36.2
admission/admission.go; kubernetes v1.37.2 plugin/pkg/admission/limitranger.
"""
SHOWN = 400
"""Maximum number of characters of a refusal's message."""


async def refusals(context: str, namespace: str, objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the faults of objects that admission would refuse, each once; stores nothing.

    What can't be tried is left out: an object in a namespace that is not there yet, a webhook
    without dry runs, a right that is missing.

    Args:
        context: Context of the kubeconfig.
        namespace: Namespace of objects that name none.
        objects: Objects that the chart renders.
    """
    tried = [item for each in objects if each.get("kind") in APPS for item in _with_pod(each)]
    if not tried:
        return []
    try:
        async with connect(context) as client:
            found = await gather(lambda item: _refusal(client, namespace, item), tried)
    except ClusterError:
        return []  # The inspection reports a cluster that does not answer.
    return list(dict.fromkeys(filter(None, found)))


def _with_pod(item: Mapping[str, Any]) -> Iterator[Json]:
    """Yield an object with its kind, and the pod of its template."""
    yield dict(item)
    template, metadata = item["spec"]["template"], item["metadata"]
    name = {"generateName": f"{metadata['name']}-", "namespace": metadata.get("namespace")}
    own = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    yield {"kind": "Pod", "metadata": {**own, **name}, "spec": template["spec"]}


async def _refusal(client: Client, namespace: str, item: Json) -> str:
    kind, metadata = item["kind"], item["metadata"]
    space = metadata.get("namespace") or namespace
    body = {**item, "metadata": {**metadata, "namespace": space}}
    is_app = kind in APPS
    try:
        await client.request(
            "POST",
            f"namespaces/{space}/{APPS.get(kind, 'pods')}",
            base="/apis/apps" if is_app else "",
            body={**body, "apiVersion": "apps/v1" if is_app else "v1"},
            params={"dryRun": "All"},
        )
    except Refused as error:
        # Admission comes before the check whether an object of this name exists.
        if DENIED.search(error.message):
            name = metadata.get("name") or metadata["generateName"].removesuffix("-")
            of = f"{kind} {space}/{name}" if is_app else f"pods of {space}/{name}"
            return str(
                Fault(
                    printable(of, 350),
                    f"admission refuses it: {printable(error.message, SHOWN)}",
                    "an object that the cluster's admission takes",
                    refusal_cure(error.message),
                )
            )
    return ""
