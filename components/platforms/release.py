"""A Helm release in a namespace of its own, waited for, cleared of what a killed run left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_command as command

from components.charts.source import chart_arguments
from components.manifest import Manifest, Release
from components.operation import command_line, document
from components.platforms.handover import other_releases
from components.platforms.leftovers import clearing
from components.settings.cluster import Cluster

#: Seconds until a release that doesn't come up is given up. Large pools pull images for long;
#: Helm's default of 300 s was too short for some 180 nodes (METR/hawk#1363).
TIMEOUT = 1800


def namespace(parent: pulumi.ComponentResource, name: str, namespace_name: str) -> Manifest:
    """A namespace for privileged pods: device plugins mount paths of the host."""
    return Manifest(
        name,
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace_name,
                "labels": {
                    "app.kubernetes.io/managed-by": "gpu-cluster",
                    "pod-security.kubernetes.io/enforce": "privileged",
                },
            },
        },
        pulumi.ResourceOptions(parent=parent),
    )


def definitions(
    parent: pulumi.ComponentResource, name: str, cluster: Cluster, names: list[str]
) -> command.local.Command:
    """Custom resource definitions that come with a release, and go with it where they are ours."""
    return command.local.Command(
        name,
        create=command_line("crds", "note"),
        delete=command_line("crds", "remove"),
        stdin=document({"context": cluster.kubernetes.context, "names": names}),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def release(
    parent: pulumi.ComponentResource,
    name: str,
    *,
    cluster: Cluster,
    chart: str,
    version: str,
    namespace_name: str,
    values: dict[str, Any],
    depends_on: Sequence[pulumi.Resource],
    gives_way: pulumi.ResourceHookBinding | None = None,
) -> Release:
    """A release named as its chart. A failed one is kept and tried again by the next run.

    ``gives_way``: what runs before an update of it.
    """
    hooks = clearing("release", cluster.kubernetes.context, name)
    if gives_way is not None:
        hooks.before_update = gives_way.before_update
    return Release(
        name,
        {
            "name": chart,
            "namespace": namespace_name,
            "createNamespace": False,
            "values": values,
            "timeout": TIMEOUT,
            "cleanupOnFail": True,
            **chart_arguments(cluster.charts, chart, version),
        },
        pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(depends_on),
            aliases=other_releases(chart),
            delete_before_replace=True,
            hooks=hooks,
        ),
    )
