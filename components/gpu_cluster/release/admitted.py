"""Check by a dry run at the API server that admission accepts the objects of the platform's chart.

Admission policies and webhooks of other people may refuse what Helm creates. Helm would notice it
after the run has changed hosts and nodes. A dry run stores nothing (Kubernetes
documentation, "Dry-run"). It needs the rights of a deployment, so a preview does not ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.kubernetes.api import Client, ClusterError, Refused, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes.causes.cures import refusal_cure
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

APPS = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
"""Kinds of objects that are tried, in the API group `apps`.

Their pods are not: admission may take pods from their controller alone.
"""
DENIED = re.compile(r"denied( the)? request|exceeded quota|failed quota")
"""Words of an admission that refuses an object, in contrast to a missing right or object.

Sources: k8s.io/apiserver v0.37.2 pkg/admission/plugin/policy/validating/dispatcher.go,
pkg/util/webhook/error.go, plugin/resourcequota/controller.go.
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
    tried = [item for item in objects if item.get("kind") in APPS]
    if not tried:
        return []
    try:
        async with connect(context) as client:
            found = await gather(lambda item: _refusal(client, namespace, item), tried)
    except ClusterError:
        return []  # The inspection reports a cluster that does not answer.
    return list(dict.fromkeys(filter(None, found)))


async def _refusal(client: Client, namespace: str, item: Mapping[str, Any]) -> str:
    kind, metadata = item["kind"], item["metadata"]
    space = metadata.get("namespace") or namespace
    body = {**item, "apiVersion": "apps/v1", "metadata": {**metadata, "namespace": space}}
    url, base = f"namespaces/{space}/{APPS[kind]}", "/apis/apps"
    try:
        await client.request("POST", url, base=base, body=body, params={"dryRun": "All"})
    except Refused as error:
        # Admission comes before the check whether an object of this name exists.
        if DENIED.search(error.message):
            return str(
                Fault(
                    printable(f"{kind} {space}/{metadata['name']}", 350),
                    f"an object that admission rejects: {printable(error.message, SHOWN)}",
                    "an object that the cluster's admission accepts",
                    refusal_cure(error.message),
                )
            )
    return ""
