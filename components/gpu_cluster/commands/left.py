"""The resources left in a stack's state, and removal of a lost host from the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

REMOTE = "command:remote:Command"

KUBEADM_CLUSTER = "gpucluster:index:KubeadmCluster::"
CLUSTER_COMMANDS = ("member-", "join-", "access-")
"""Words in the names of a new cluster's Commands (`gpu_cluster.hosts.kubeadm.component`)."""

Resources = list[dict[str, Any]]


def name_of(urn: str) -> str:
    """Return the name of a resource, which is the last part of its URN."""
    return urn.rsplit("::", 1)[-1]


def left(resources: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each resource that a failed destroy left."""
    lines = []
    for resource in resources:
        if not resource.get("custom") or resource["type"].startswith("pulumi:providers:"):
            continue
        name = name_of(resource["urn"])
        if resource["type"] == REMOTE:
            # The whole connection of a Command is secret, so the state does not show the host's
            # address.
            lines.append(
                f"{name}: what it changed on its host; backups are in /var/lib/gpu-cluster"
            )
        else:
            lines.append(f"{name} ({resource['type']})")
    return lines


def of_host(resources: Iterable[dict[str, Any]], host: str) -> list[str]:
    """Return the URNs of the remote Commands that run on a host, named `<component>-<host>`.

    The component of a new cluster has several Commands a host, with another word before the host.
    """
    urns = []
    for resource in resources:
        parent = resource.get("parent", "")
        kinds = CLUSTER_COMMANDS if KUBEADM_CLUSTER in parent else ("",)
        names = [f"{name_of(parent)}-{kind}{host}" for kind in kinds]
        if resource["type"] == REMOTE and name_of(resource["urn"]) in names:
            urns.append(resource["urn"])
    return urns


def without(resources: Resources, gone: Iterable[str]) -> Resources:
    """Return the state's resources without the URNs in `gone`, and without dependencies on them."""
    gone = set(gone)
    remaining = []
    for resource in resources:
        if resource["urn"] in gone:
            continue
        changed = dict(resource)
        if changed.get("deletedWith") in gone:
            del changed["deletedWith"]
        if "dependencies" in changed:
            changed["dependencies"] = [urn for urn in changed["dependencies"] if urn not in gone]
        if "propertyDependencies" in changed:
            changed["propertyDependencies"] = {
                key: [urn for urn in urns or [] if urn not in gone]
                for key, urns in changed["propertyDependencies"].items()
            }
        remaining.append(changed)
    return remaining
