"""Resources that a simulated node advertises by gpu-manager or the DRA driver. Pure functions.

Extended resources: tkestack/gpu-manager 8cd842e (100 units per card, memory in units of 256 MiB).
ResourceSlices: NVIDIA/k8s-dra-driver-gpu v25.12.0, cmd/gpu-kubelet-plugin/deviceinfo.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_cluster_lab.simulator import faults, marks, stages
from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller.devices import CORE, PRODUCT, gpu_uuid

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER = "gpu.nvidia.com"
MEMORY = "tencent.com/vcuda-memory"
#: Memory of an A100 with 80 GiB, in units of the resource `MEMORY` (256 MiB).
MEMORY_OF_CARD = 80 * 1024 // 256

Cards = tuple[dict[str, str], dict[str, str]]


@dataclass
class Node:
    """State of a simulated node, from the Node object at resource version `version`."""

    version: int = field(compare=False)
    name: str
    uid: str
    gpus: int
    faults: faults.Faults
    driver_wanted: bool
    driver_loaded: str
    cards: Cards


def read_node(item: Json) -> Node | None:
    """Read the state of a simulated node from a Node object.

    Return None if the node is not simulated or has no GPUs.
    """
    meta, notes = item["metadata"], item["metadata"].get("annotations") or {}
    if marks.FAKE_NODE not in notes or marks.GPUS not in notes:
        return None
    status = item.get("status") or {}

    def read_cards(kind: str) -> dict[str, str]:
        return {k: v for k, v in (status.get(kind) or {}).items() if k in (CORE, MEMORY)}

    return Node(
        version=int(meta["resourceVersion"]),
        name=meta["name"],
        uid=meta["uid"],
        gpus=int(notes[marks.GPUS]),
        faults=faults.of_node(notes),
        driver_wanted=marks.DRIVER_WANTED in notes,
        driver_loaded=notes.get(marks.DRIVER_LOADED, ""),
        cards=(read_cards("capacity"), read_cards("allocatable")),
    )


def outcome(node: Node, kind: str) -> tuple[str, str]:
    """Return the outcome and the error message of a gpu-manager, DRA driver or installer pod."""
    if kind == "installer":
        loaded = node.faults.driver_already_loaded
        message = faults.ALREADY_LOADED_MESSAGE if loaded else ""
    else:
        message = replace(node.faults, runtime_not_configured=False).plugin_message or ""
    return (stages.CRASHING, message) if message else (stages.RUNNING, "")


def cards(node: Node, advertised: bool) -> Cards:
    """Return the capacity and allocatable amounts of a node's gpu-manager resources.

    When gpu-manager stops, allocatable becomes 0 and capacity stays.
    """
    if not advertised:
        capacity, _ = node.cards
        return capacity, dict.fromkeys(capacity, "0")

    def of(count: int) -> dict[str, str]:
        return {CORE: str(100 * count), MEMORY: str(MEMORY_OF_CARD * count)}

    return of(node.gpus), of(max(0, node.gpus - node.faults.unhealthy))


def slice_name(node: Node) -> str:
    """Return the name of a node's ResourceSlice.

    It is fixed, while the real DRA driver's name ends in random letters.
    """
    return f"{node.name}-{DRIVER}-simulated"


def resource_slice(node: Node, count: int) -> Json:
    """Return the ResourceSlice of a node that publishes `count` GPUs."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(node),
            "annotations": {marks.SIMULATED_OPERAND: "true"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": node.name,
                    "uid": node.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {
                        "type": {"string": "gpu"},
                        "uuid": {"string": gpu_uuid(node.name, index)},
                        "productName": {"string": PRODUCT},
                        "architecture": {"string": "Ampere"},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(node.gpus - count, node.gpus)
            ],
        },
    }
