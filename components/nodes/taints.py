"""A node's taints, of which only ours are touched.

``spec.taints`` is an atomic list (k8s.io/api core/v1 ``NodeSpec``): applying it would drop the
taints of others, so taints are added one by one under a resourceVersion test, as kubectl does.
"""

from __future__ import annotations

import json

from components.kubernetes.api import JSON_PATCH, Client, ClusterError, Json, Refused
from policies.faults import Fault

RECORD = "gpu-cluster/taints"

#: Attempts to write a node's taints when somebody else writes the node at the same time.
ATTEMPTS = 8


def taints_wanted(current: list[Json], recorded: list[Json], wanted: list[Json]) -> list[Json]:
    """The node's taints after apply: others' stay, recorded ones that are no longer wanted go.

    Raises:
        ClusterError: somebody else's taint has our key and effect with another value.
    """
    result = [taint for taint in current if taint not in recorded or taint in wanted]
    for taint in wanted:
        same = [t for t in result if (t["key"], t["effect"]) == (taint["key"], taint["effect"])]
        if not same:
            result.append(taint)
        elif same[0].get("value", "") != taint.get("value", ""):
            raise ClusterError(
                Fault(
                    f"taint {taint['key']}:{taint['effect']}",
                    f"value {same[0].get('value', '')!r}, which this stack did not set",
                    repr(taint.get("value", "")),
                    "remove that taint, or declare its value",
                )
            )
    return result


def _plain(taint: Json) -> Json:
    return {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}


def recorded_taints(node: Json) -> list[Json]:
    text = node["metadata"].get("annotations", {}).get(RECORD)
    return list(json.loads(text)) if text else []


def claimed(node: Json, recorded: list[Json], wanted: list[Json]) -> list[Json]:
    """Those of ``wanted`` that are ours once they are written: another's equal one stays theirs.

    Raises:
        ClusterError: as `taints_wanted`.
    """
    current = [_plain(taint) for taint in node["spec"].get("taints") or []]
    taints_wanted(current, recorded, wanted)
    return [taint for taint in wanted if taint not in current or taint in recorded]


async def write_taints(
    client: Client, node: Json, recorded: list[Json], wanted: list[Json], manager: str
) -> Json:
    """Brings a node's taints to `taints_wanted`; gives back the taints that are ours.

    Args:
        client: of the cluster.
        node: the Node.
        recorded: taints of ours that it has by an earlier run.
        wanted: taints of ours that it should have.
        manager: field manager.
    """
    name = node["metadata"]["name"]
    for _ in range(ATTEMPTS):
        current = node["spec"].get("taints") or []
        plain = [_plain(taint) for taint in current]
        after = taints_wanted(plain, recorded, wanted)
        own = claimed(node, recorded, wanted)
        if after == plain:
            return {"ours": own, "changed": False}
        # As they are where they stay: the control plane notes the time at some of them.
        value = [next((t for t in current if _plain(t) == taint), taint) for taint in after]
        version = node["metadata"]["resourceVersion"]
        patch: list[Json] = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        if value:
            patch.append({"op": "add", "path": "/spec/taints", "value": value})
        else:
            patch.append({"op": "remove", "path": "/spec/taints"})
        try:
            await client.request(
                "PATCH",
                f"nodes/{name}",
                body=patch,
                content_type=JSON_PATCH,
                params={"fieldManager": manager},
            )
            return {"ours": own, "changed": True}
        except Refused as error:
            if error.code not in (409, 422):
                raise
            node = await client.request("GET", f"nodes/{name}")
    raise ClusterError(
        Fault(
            f"node {name}",
            f"its taints changed {ATTEMPTS} times while they were being written",
            "one writer",
            "find who writes them (`kubectl get node -o yaml --show-managed-fields`), then run "
            "again",
        )
    )
