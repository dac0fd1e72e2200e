"""A Helm release in a namespace of its own, waited for, cleared of what a killed run left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

import config

from .charts.source import chart_arguments
from .leftovers import clearing

#: Seconds until a release that doesn't come up is given up. Large pools pull images for long;
#: Helm's default of 300 s was too short for some 180 nodes (METR/hawk#1363).
TIMEOUT = 1800


def namespace(
    parent: pulumi.ComponentResource, name: str, namespace_name: str
) -> k8s.core.v1.Namespace:
    """A namespace for privileged pods: device plugins mount paths of the host."""
    return k8s.core.v1.Namespace(
        name,
        metadata={
            "name": namespace_name,
            "labels": {
                "app.kubernetes.io/managed-by": "gpu-cluster",
                "pod-security.kubernetes.io/enforce": "privileged",
            },
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def release(
    parent: pulumi.ComponentResource,
    name: str,
    *,
    cluster: config.Cluster,
    chart: str,
    version: str,
    namespace_name: str,
    values: dict[str, Any],
    depends_on: Sequence[pulumi.Resource],
) -> k8s.helm.v3.Release:
    """A release named as its chart. A failed one is kept and tried again by the next run."""
    return k8s.helm.v3.Release(
        name,
        name=chart,
        namespace=namespace_name,
        create_namespace=False,
        values=values,
        timeout=TIMEOUT,
        cleanup_on_fail=True,
        **chart_arguments(cluster.charts, chart, version),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(depends_on),
            hooks=clearing("release", cluster.kubernetes.context, name),
        ),
    )
