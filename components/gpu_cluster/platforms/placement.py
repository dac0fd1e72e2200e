"""Judge by the scheduler's rules whether nodes with GPUs admit the platform's pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.base.names import NFD_PREFIX
from gpu_cluster.kubernetes.managers import NFD, daemon_set
from gpu_cluster.platforms.base import Platform
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.kube.node_selectors import is_node_selected
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.printable import printable

Json = Mapping[str, Any]

_NVIDIA = "nvidia.com/"
_TIMESTAMP = f"{_NVIDIA}gfd.timestamp"
"""Label that GPU Feature Discovery sets with all others (k8s-device-plugin v0.20.0)."""
_SHOWN = 200
_GONE = "no pod of the platform runs there otherwise, and its GPUs are not advertised"


def pod_specs(platform: Platform) -> tuple[str, list[Json]]:
    """Return where the placement of the pods that allocate GPUs is written, and their pod specs.

    A node needs the pods of one of the specs. A spec of a release has only what decides on nodes.
    """
    installation, adopted = platform.installation, platform.site.adopted
    if installation.release is not None:
        place = "adopted.release.values" if adopted else "extraValues"
        return place, [platform.placement]
    manifests = [extra_object.manifest for extra_object in installation.objects]
    return "adopted.objects", [
        manifest["spec"]["template"]["spec"]
        for manifest in manifests
        if manifest["kind"] == "DaemonSet" and _is_plugin(manifest)
    ]


def _is_plugin(manifest: Json) -> bool:
    try:
        manager = daemon_set(dict(manifest))
    except (KeyError, TypeError):
        return False  # The manifest has only a part of a DaemonSet, which says nothing about pods.
    return manager is not None and manager.what != NFD


def misplaced(
    platform: Platform, pool: str, node: str, labels: Mapping[str, str], taints: Sequence[NodeTaint]
) -> Iterator[Fault]:
    """Yield a fault if a node admits no pods of the platform, and a warning for an unknown taint.

    A taint may be a temporary one, so it does not stop a run.

    Args:
        pool: Name of the node's pool.
        labels: Labels that the node has, and those that the stack sets.
        taints: Taints of the node that others set.
    """
    place, specs = pod_specs(platform)
    faults = [_judge(spec, place, pool, node, labels, taints) for spec in specs]
    if faults and all(faults):
        yield from filter(None, faults[:1])


def _judge(
    spec: Json,
    place: str,
    pool: str,
    node: str,
    labels: Mapping[str, str],
    taints: Sequence[NodeTaint],
) -> Fault | None:
    lacking = {
        key: value
        for key, value in (spec.get("nodeSelector") or {}).items()
        if labels.get(key) != value and _is_known(key, labels)
    }
    if lacking and (key := min(lacking)):
        return Fault(
            f"node {node}",
            f"no label {key}={lacking[key]}, which a nodeSelector in {place} demands",
            f"a label on every node of the pools with GPUs: {_GONE}",
            f"add the label to pool {pool}, or remove it from the nodeSelector",
        )
    affinity = _known_affinity(spec, labels)
    if not is_node_selected(affinity, {"metadata": {"name": node, "labels": labels}}):
        return Fault(
            f"node {node}",
            f"labels that the node affinity in {place} does not admit; it wants "
            f"{printable(_terms_text(affinity), _SHOWN)}",
            f"an affinity that admits every node of the pools with GPUs: {_GONE}",
            f"correct the affinity, or add the labels to pool {pool}",
        )
    tolerations = spec.get("tolerations")
    if "tolerations" not in spec and place != "adopted.objects":
        return None  # The chart's own tolerations are in force, and only the chart knows them.
    taint = next((taint for taint in taints if not taint.is_tolerated(tolerations)), None)
    if taint is None:
        return None
    where = "scheduling.tolerations" if place == "extraValues" else f"the tolerations in {place}"
    return Fault(
        f"node {node}",
        f"the taint {printable(str(taint), _SHOWN)}, which the platform's pods do not tolerate",
        f"a toleration, unless the taint is temporary: {_GONE}",
        f"add a toleration of {printable(taint.key, _SHOWN)} to {where}, or remove the taint",
        severity=FaultSeverity.WARNING,
    )


def _is_known(key: str, labels: Mapping[str, str]) -> bool:
    """Return whether a label that is absent is absent for good; feature discovery sets some."""
    if key.startswith(NFD_PREFIX):
        return any(label.startswith(NFD_PREFIX) for label in labels)
    return not key.startswith(_NVIDIA) or _TIMESTAMP in labels


def _known_affinity(spec: Json, labels: Mapping[str, str]) -> Json:
    """Return the required node affinity, without requirements of labels that may still come.

    The result is empty if a term has no other requirement, because that term may admit the node.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return {}
    terms = []
    for term in required.get("nodeSelectorTerms") or ():
        known = [
            requirement
            for requirement in term.get("matchExpressions") or ()
            if requirement["key"] in labels or _is_known(requirement["key"], labels)
        ]
        if term.get("matchExpressions") and not known and not term.get("matchFields"):
            return {}
        terms.append({**term, "matchExpressions": known})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _terms_text(spec: Json) -> str:
    affinity = spec["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return " or ".join(
        ", ".join(
            " ".join([item["key"], item["operator"], ",".join(item.get("values") or ())]).strip()
            for field in ("matchExpressions", "matchFields")
            for item in term.get(field) or ()
        )
        for term in terms
    )
