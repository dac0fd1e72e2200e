"""Changes of a node's taints that leave other managers' taints alone.

`spec.taints` is an atomic list (k8s.io/api core/v1 `NodeSpec`), so server-side apply would drop the
taints of other managers. Taints are therefore changed by a JSON patch that tests the
resourceVersion, as kubectl does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from gpu_cluster import requests
from gpu_cluster.kubernetes.api import JSON_PATCH, Client, ClusterError, Json, Refused
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_rules.faults import Fault, PartError
from gpu_rules.kube.taints import NodeTaint

RECORD = "gpu-cluster/taints"
_BOUND = 256 * 1024
"""Maximum number of characters of the record: the limit of all annotations of a Kubernetes object
(k8s.io/apimachinery, pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB).
"""

# Maximum number of attempts to write a node's taints while other clients write the same node.
ATTEMPTS = 8


def _read_taint(value: Json) -> Json:
    if not {"key", "effect"} <= value.keys():
        raise PartError("a taint has a key and an effect")
    if not all(isinstance(text, str) for text in value.values()):
        raise PartError("a taint's values are texts")
    return value


RecordedTaint = Annotated[Json, AfterValidator(_read_taint)]
"""A taint in an annotation of a node, as in the Node's `spec.taints`."""


def taints_wanted(current: list[Json], recorded: list[Json], desired: list[Json]) -> list[Json]:
    """Return the taints that a node should have: the wanted ones and those of other managers.

    Recorded taints that are no longer wanted are dropped.

    Raises:
        ClusterError: Another manager's taint has the same key and effect, but another value.
    """
    result = [taint for taint in current if taint not in recorded or taint in desired]
    for taint in desired:
        new = NodeTaint.of(taint)
        same = next((old for old in map(NodeTaint.of, result) if old.is_same(new)), None)
        if same is None:
            result.append(taint)
        elif same != new:
            raise ClusterError(
                Fault(
                    f"taint {new.key}:{new.effect}",
                    f"value {same.value!r}, which this stack did not set",
                    repr(new.value),
                    "remove that taint, or declare its value",
                )
            )
    return result


def _strip_taint(taint: Json) -> Json:
    return {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}


def recorded_taints(node: Json) -> list[Json]:
    """Return the taints that a node's annotation records as this program's.

    Anyone who may change the Node can write the annotation. An unreadable record is an error,
    because without the record the taints of this program would stay on the node for ever.

    Raises:
        IllFormed: The annotation is not a list of taints.
    """
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    if not text:
        return []
    taints = requests.kept(tuple[RecordedTaint, ...], text, _BOUND)
    if taints is None:
        name = node["metadata"]["name"]
        raise IllFormed(
            Fault(
                f"node {name}: annotation {RECORD}",
                f"a value of {len(text)} characters that this program did not write",
                "the list of taints that this stack set on the node",
                f"delete the annotation (`kubectl annotate node {name} {RECORD}-`), remove the "
                f"taints that this stack set (`kubectl taint node {name} KEY-`), then run again",
            )
        )
    return list(taints)


def claimed(node: Json, recorded: list[Json], desired: list[Json]) -> list[Json]:
    """Return the wanted taints that this program will own after the write.

    An equal taint that another manager set before stays the other manager's.

    Raises:
        ClusterError: Another manager's taint has the same key and effect, but another value.
    """
    current = [_strip_taint(taint) for taint in node["spec"].get("taints") or []]
    taints_wanted(current, recorded, desired)
    return [taint for taint in desired if taint not in current or taint in recorded]


async def write_taints(
    client: Client,
    node: Json,
    recorded: Callable[[Json], list[Json]],
    desired: list[Json],
    manager: str,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """Write the taints that `taints_wanted` returns to a node; return those this program owns.

    Args:
        recorded: Function that returns the taints of this program that a node has from an earlier
            run, and that may be removed. It is called again for a node that others changed.
        desired: Taints of this program that the node should have.
        manager: Field manager of the write.
        annotations: Annotations that are written in the same request, which is then always sent.

    Returns:
        The owned taints under `ours`, and under `changed` whether the node was changed.

    Raises:
        ClusterError: Other clients changed the node during all attempts.
    """
    name = node["metadata"]["name"]
    for _ in range(ATTEMPTS):
        current = node["spec"].get("taints") or []
        plain = [_strip_taint(taint) for taint in current]
        after = taints_wanted(plain, recorded(node), desired)
        owned = claimed(node, recorded(node), desired)
        if after == plain and not annotations:
            return {"ours": owned, "changed": False}
        # Keep existing taints complete, because the control plane adds `timeAdded` to some of them.
        value = [next((t for t in current if _strip_taint(t) == taint), taint) for taint in after]
        version = node["metadata"]["resourceVersion"]
        patch: list[Json] = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        if value:
            patch.append({"op": "add", "path": "/spec/taints", "value": value})
        elif current:
            patch.append({"op": "remove", "path": "/spec/taints"})
        if annotations:
            both = {**(node["metadata"].get("annotations") or {}), **annotations}
            patch.append({"op": "add", "path": "/metadata/annotations", "value": both})
        try:
            await client.request(
                "PATCH",
                f"nodes/{name}",
                body=patch,
                content_type=JSON_PATCH,
                params={"fieldManager": manager},
            )
            return {"ours": owned, "changed": True}
        except Refused as error:
            if error.code not in (409, 422):
                raise
            node = await client.request("GET", f"nodes/{name}")
    raise ClusterError(
        Fault(
            f"node {name}",
            f"taints that another program changed {ATTEMPTS} times while this program wrote them",
            "only one program that writes the node's taints",
            "find the other program (`kubectl get node -o yaml --show-managed-fields`) and stop "
            "it, then run again",
        )
    )
