"""Explain how to detach GPU software from its owner, such as Argo CD, before the takeover."""

from __future__ import annotations

from gpu_cluster.commands.adoption.observed import ManagedBy, ManagerKind, ObservedWorkload
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
    return Fault(str(workload), f"one that {owner} manages", _WANTED, way(owner))


def way(owner: ManagedBy) -> str:
    """Return the commands with which an owner gives up its objects without deleting them."""
    name, space = owner.name, owner.namespace
    if owner.kind is ManagerKind.ARGO_CD:
        return (
            f"remove the Application from its ApplicationSet or parent, `argocd app delete {name} "
            "--cascade=false`, remove the annotation argocd.argoproj.io/tracking-id from the "
            "object, then run `gpu-cluster adopt` again; objects and pods stay"
        )
    if owner.kind is ManagerKind.FLUX and owner.object_kind == "HelmRelease":
        return (
            f"`flux suspend helmrelease -n {space} {name}`, remove it from the repository, "
            f"`kubectl delete helmrelease -n {space} {name}` (a suspended one uninstalls nothing), "
            "then run `gpu-cluster adopt` again; the release and its pods stay"
        )
    if owner.kind is ManagerKind.FLUX:
        return (
            "annotate the object with kustomize.toolkit.fluxcd.io/prune=disabled, remove it from "
            f"the repository of Kustomization {space}/{name}, remove its labels "
            "kustomize.toolkit.fluxcd.io/name and namespace, then run `gpu-cluster adopt` again"
        )
    if owner.kind is ManagerKind.HELM_CONTROLLER:
        return (
            f"annotate HelmChart {space}/{name} with helmcharts.helm.cattle.io/unmanaged=true, "
            "remove its manifest from the server's folder, remove its finalizer and delete it, "
            "then run `gpu-cluster adopt` again; the release and its pods stay"
        )
    if owner.kind is ManagerKind.LIFECYCLE_MANAGER:
        return "it can't be handed over: Operator Lifecycle Manager installs no Helm release"
    if owner.kind is ManagerKind.ADDON_MANAGER:
        return "switch the provider's GPU add-on off, or leave its nodes out of the stack's pools"
    if owner.kind is ManagerKind.THIS_PROGRAM:
        return (
            "remove it from that stack first: run `gpu-cluster leave` in the checkout of that stack"
        )
    return f"take over what made it, {owner}, or keep it outside the stack"


def no_release(workload: ObservedWorkload) -> Fault:
    """Return why a GPU Operator without a Helm release can't be adopted."""
    return Fault(
        str(workload),
        "a Deployment that no Helm release records",
        "a Helm release: the operator consists of many objects",
        "make it one with the same values, which restarts nothing if they render the same: `helm "
        "upgrade --install --take-ownership`, then run `gpu-cluster adopt` again",
    )
