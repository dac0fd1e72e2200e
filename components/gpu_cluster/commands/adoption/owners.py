"""Find the owner of an object from its labels, annotations and owner references.

Sources: Helm 3 `pkg/action/validate.go`; Argo CD documentation, "Resource Tracking", and v3
`util/argo/resource_tracking.go` (SetAppInstance); Flux documentation, "HelmRelease" and
"Kustomization", and fluxcd/pkg `ssa/manager.go` (SetOwnerLabels); Fleet
`internal/helmdeployer/postrender.go` and `internal/cmd/agent/deployer/desiredset`
(GetLabelsAndAnnotations); k3s documentation, "Helm"; Operator Lifecycle Manager,
`pkg/controller/registry/resolver`; Kubernetes `cluster/addons/addon-manager/README.md`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from gpu_cluster.commands.adoption.observed import NOBODY, ManagedBy, ManagerKind
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.kubernetes.managers import OWNER, helm_release

TRACKING_ID = "argocd.argoproj.io/tracking-id"
TRACKING_LABEL = "argocd.argoproj.io/instance"
ADDON_MODE = "addonmanager.kubernetes.io/mode"
MARKS = {
    ManagerKind.ARGO_CD: ("argocd.argoproj.io/",),
    ManagerKind.FLUX: ("helm.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/"),
    ManagerKind.FLEET: ("objectset.rio.cattle.io/", "fleet.cattle.io/"),
}
"""Beginnings of the labels and annotations with which programs mark what they deliver."""
FLEET_ID, WRANGLER_OWNER = "objectset.rio.cattle.io/id", "objectset.rio.cattle.io/owner-gvk"
"""Annotations of objects that a controller of Rancher applies.

Fleet applies without an owner. k3s' controllers of add-ons and charts write the owner's kind, too.
"""
_FLUX = (
    ("HelmRelease", "helm.toolkit.fluxcd.io"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io"),
)
OLM_OWNER = "olm.owner"


@dataclass(frozen=True, kw_only=True)
class Deliverers:
    """Objects through which Argo CD, Flux or the k3s Helm controller deploy software.

    An attribute is None if the cluster doesn't serve the objects' kind.

    Argo CD and Flux can run in another cluster. A label that names an Application or HelmRelease
    then identifies the owner although the inspected cluster has no such object.

    Attributes:
        applications: Argo CD's Applications.
        helm_releases: Flux's HelmReleases.
        kustomizations: Flux's Kustomizations.
        helm_charts: HelmCharts of the Helm controller in k3s and RKE2.
        addon_manager: True if Kubernetes' addon manager runs, as on GKE. Manifests that people
            copied from its addons have its label, too, and must not count as its objects.
    """

    applications: tuple[Json, ...] | None = None
    helm_releases: tuple[Json, ...] | None = None
    kustomizations: tuple[Json, ...] | None = None
    helm_charts: tuple[Json, ...] | None = None
    addon_manager: bool = False

    def of_kind(self, kind: str) -> tuple[Json, ...] | None:
        """Return Flux's objects of the kind `HelmRelease` or `Kustomization`."""
        return self.helm_releases if kind == "HelmRelease" else self.kustomizations


def owner_of(item: Json, kind: str, deliverers: Deliverers) -> ManagedBy:
    """Return the owner of an object.

    Argo CD and Flux are preferred to Helm as the owner, because they run Helm or render
    charts. An object that Argo CD or Flux no longer manages may still have their label; its owner
    is then Helm or nobody.

    Args:
        item: The object.
        kind: Kind of the object, because items of an API list have no field `kind`.
        deliverers: Objects of Argo CD, Flux and the Helm controller in the cluster.
    """
    owner = (
        _this_program(item)
        or _argo_cd(item, kind, deliverers.applications)
        or _owner_by_flux(item, deliverers)
        or _owner_by_fleet(item)
        or (_addon_manager(item) if deliverers.addon_manager else None)
        or _lifecycle_manager(item)
        or _owner_by_operator(item)
        or _owner_by_helm(item, deliverers.helm_charts or ())
        or NOBODY
    )
    if owner.kind not in MARKS:
        return owner
    return replace(
        owner,
        labels=_marks_of(_labels_of(item), owner.kind),
        annotations=_marks_of(_object_annotations(item), owner.kind),
    )


def _marks_of(keys: Collection[str], kind: ManagerKind) -> tuple[str, ...]:
    return tuple(sorted(key for key in keys if key.startswith(MARKS[kind])))


def _labels_of(item: Json) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def _object_annotations(item: Json) -> dict[str, str]:
    return item["metadata"].get("annotations") or {}


def _this_program(item: Json) -> ManagedBy | None:
    ours = LABELS.items() <= _labels_of(item).items() or OWNER in _object_annotations(item)
    return ManagedBy(kind=ManagerKind.THIS_PROGRAM) if ours else None


def _argo_cd(item: Json, kind: str, applications: Collection[Json] | None) -> ManagedBy | None:
    """Return the Argo CD Application that tracks an object; None if no Application does.

    An Application tracks an object by an annotation or label of the object, or in its own status.
    """
    tracked = _object_annotations(item).get(TRACKING_ID, "").partition(":")[0]
    # The tracking id begins with `<application>` or, for Applications outside Argo CD's namespace,
    # `<namespace>_<application>` (argo-cd v3, util/argo/resource_tracking.go).
    name = tracked.rpartition("_")[2] or _labels_of(item).get(TRACKING_LABEL, "")
    if applications is None:
        return _by_argo_cd(name) if name else None
    for application in applications:
        metadata = application["metadata"]
        if metadata["name"] == name or _lists_object(application, item, kind):
            return _by_argo_cd(metadata["name"], metadata["namespace"])
    return None


def _by_argo_cd(name: str, namespace: str = "") -> ManagedBy:
    return ManagedBy(
        kind=ManagerKind.ARGO_CD, object_kind="Application", name=name, namespace=namespace
    )


def _lists_object(application: Json, item: Json, kind: str) -> bool:
    metadata = item["metadata"]
    identity = (kind, metadata.get("namespace"), metadata["name"])
    listed = (application.get("status") or {}).get("resources") or []
    return any(
        isinstance(listed_object, dict)
        and (listed_object.get("kind"), listed_object.get("namespace"), listed_object.get("name"))
        == identity
        for listed_object in listed
    )


def _owner_by_flux(item: Json, deliverers: Deliverers) -> ManagedBy | None:
    labels = _labels_of(item)
    for kind, prefix in _FLUX:
        name, namespace = labels.get(f"{prefix}/name"), labels.get(f"{prefix}/namespace", "")
        objects = deliverers.of_kind(kind)
        if name and (
            objects is None
            or any(_is_object(listed_object, name, namespace) for listed_object in objects)
        ):
            return ManagedBy(
                kind=ManagerKind.FLUX, object_kind=kind, name=name, namespace=namespace
            )
    return None


def _is_object(item: Json, name: str, namespace: str) -> bool:
    metadata = item["metadata"]
    return (metadata["name"], metadata["namespace"]) == (name, namespace)


def _owner_by_fleet(item: Json) -> ManagedBy | None:
    annotations = _object_annotations(item)
    if not annotations.get(FLEET_ID) or WRANGLER_OWNER in annotations:
        return None
    return ManagedBy(kind=ManagerKind.FLEET, object_kind="bundle", name=annotations[FLEET_ID])


def _addon_manager(item: Json) -> ManagedBy | None:
    """Return the addon manager as the owner if it reverts changes of the object.

    It does not revert changes of objects with the label value `EnsureExists`.
    """
    if _labels_of(item).get(ADDON_MODE) != "Reconcile":
        return None
    return ManagedBy(kind=ManagerKind.ADDON_MANAGER)


def _owner_by_operator(item: Json) -> ManagedBy | None:
    for owner in item["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return ManagedBy(
                kind=ManagerKind.OPERATOR, object_kind=str(owner["kind"]), name=str(owner["name"])
            )
    return None


def _lifecycle_manager(item: Json) -> ManagedBy | None:
    name = _labels_of(item).get(OLM_OWNER)
    if not name:
        return None
    return ManagedBy(
        kind=ManagerKind.LIFECYCLE_MANAGER,
        object_kind="ClusterServiceVersion",
        name=name,
        namespace=item["metadata"]["namespace"],
    )


def _owner_by_helm(item: Json, charts: Collection[Json]) -> ManagedBy | None:
    """Return the Helm release of an object, or the HelmChart from which a controller installs it.

    The Helm controller gives the release the name of the HelmChart.
    """
    release = helm_release(item)
    if release is None:
        return None
    namespace, name = release
    for chart in charts:
        metadata = chart["metadata"]
        target = (chart.get("spec") or {}).get("targetNamespace") or metadata["namespace"]
        if (metadata["name"], target) == (name, namespace):
            return ManagedBy(
                kind=ManagerKind.HELM_CONTROLLER,
                object_kind="HelmChart",
                name=name,
                namespace=metadata["namespace"],
            )
    return ManagedBy(kind=ManagerKind.HELM, name=name, namespace=namespace)
