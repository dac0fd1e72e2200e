"""Explain how to detach GPU software from its owner, such as Argo CD, before the takeover."""

from __future__ import annotations

from gpu_cluster.commands.adoption.observed import ManagerKind, ObservedWorkload
from gpu_rules.faults import Fault

_WANTED = "GPU software that only Helm or a plain manifest manages: two writers undo each other"


def refusal(workload: ObservedWorkload) -> Fault | None:
    """Return why a workload can't be adopted yet, and how to detach it from its owner.

    The result is None if the workload can be adopted. The commands in the text leave the
    objects and their pods in the cluster.
    """
    owner = workload.managed_by
    if owner.kind in (ManagerKind.HELM, ManagerKind.NOBODY):
        return None
    return Fault(str(workload), f"software that {owner} manages", _WANTED, way(workload))


def way(workload: ObservedWorkload) -> str:
    """Return the commands that detach a workload from its manager without deleting it."""
    owner = workload.managed_by
    name, space = owner.name, owner.namespace
    end = f"{_unmark_commands(workload)}then run `gpu-cluster adopt` again; objects and pods stay"
    if owner.kind is ManagerKind.ARGO_CD:
        return (
            f"remove the Application from its ApplicationSet or parent, `argocd app delete {name} "
            f"--cascade=false`, {end}"
        )
    if owner.kind is ManagerKind.FLUX and owner.object_kind == "HelmRelease":
        return (
            f"`flux suspend helmrelease -n {space} {name}`, remove it from the repository, "
            f"`kubectl delete helmrelease -n {space} {name}` (a suspended one uninstalls nothing), "
            f"{end}"
        )
    if owner.kind is ManagerKind.FLUX:
        return (
            "annotate the object with kustomize.toolkit.fluxcd.io/prune=disabled, remove it from "
            f"the repository of Kustomization {space}/{name}, {end}"
        )
    if owner.kind is ManagerKind.FLEET:
        return (
            "set keepResources: true in the bundle's fleet.yaml or GitRepo, wait until the bundle "
            f"is deployed again, delete its GitRepo or bundle, {end}"
        )
    if owner.kind is ManagerKind.HELM_CONTROLLER:
        return (
            f"annotate HelmChart {space}/{name} with helmcharts.helm.cattle.io/unmanaged=true, "
            "remove its manifest from the server's folder, remove its finalizer and delete it, "
            "then run `gpu-cluster adopt` again; the release and its pods stay"
        )
    if owner.kind is ManagerKind.LIFECYCLE_MANAGER:
        return (
            "it can't be handed over: Operator Lifecycle Manager installs no Helm release. To "
            "replace it, which restarts all GPU software: delete the ClusterPolicy, the operator's "
            f"Subscription in namespace {space}, and `kubectl delete csv -n {space} {name}`"
        )
    if owner.kind is ManagerKind.ADDON_MANAGER:
        return "switch the provider's GPU add-on off, or leave its nodes out of the stack's pools"
    if owner.kind is ManagerKind.THIS_PROGRAM:
        return (
            "remove it from that stack first: run `gpu-cluster leave` in the checkout of that stack"
        )
    return f"take over what made it, {owner}, or keep it outside the stack"


def _unmark_commands(workload: ObservedWorkload) -> str:
    """Return the commands that remove an owner's marks from a workload; empty without marks."""
    item = f"-n {workload.namespace} {workload.kind.lower()} {workload.name}"
    owner = workload.managed_by
    commands = [
        f"`kubectl {verb} {item} {' '.join(f'{key}-' for key in keys)}`"
        for verb, keys in (("label", owner.labels), ("annotate", owner.annotations))
        if keys
    ]
    return f"remove its marks with {' and '.join(commands)}, " if commands else ""


def no_release(workload: ObservedWorkload) -> Fault:
    """Return why a GPU Operator or a HAMi without a Helm release can't be adopted."""
    return Fault(
        str(workload),
        f"a {workload.kind} that no Helm release records",
        f"a Helm release: {workload.what} consists of many objects",
        "make it one with the same values, which restarts nothing if they render the same: `helm "
        "upgrade --install --take-ownership`, then run `gpu-cluster adopt` again",
    )
