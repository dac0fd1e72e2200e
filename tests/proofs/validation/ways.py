"""Nine ways in which nodes advertise GPUs, each with a pod that uses some of the GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
NODES, GPUS = 3, 8
MIG = {"1g.5gb": 7}
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Way:
    """One way in which nodes advertise GPUs.

    Attributes:
        sections: Sections of the configuration.
        pool: Settings of the pool.
        holds: GPU resources that the workload's pod requests; empty if the pod uses a
            ResourceClaim.
        held: Number of devices that the workload's pod uses.
        divided: Whether the nodes' GPUs are partitioned into MIG devices.
    """

    sections: Json
    holds: dict[str, str]
    held: int = 2
    pool: Json = field(default_factory=dict)
    divided: bool = False


def _shared(kind: str, replicas: int) -> Json:
    resources = {"resources": [{"name": GPU, "replicas": replicas}]}
    return {"platform": "device-plugin", "devicePlugin": {"config": {"sharing": {kind: resources}}}}


WAYS = {
    "exclusive": Way({"platform": "device-plugin"}, {GPU: "2"}),
    # With time-slicing, a GPU with one used replica still advertises other replicas. So the pod
    # uses a replica of each GPU.
    "time-slicing": Way(_shared("timeSlicing", 4), {GPU: "32"}, held=8),
    "MPS": Way(_shared("mps", 2), {GPU: "16"}, held=8),
    "excluded devices": Way(
        {"platform": "device-plugin"},
        {GPU: "2"},
        pool={"unhealthyDevices": {"gpu-2": {"index": [3]}}},
    ),
    "operator": Way({"platform": "gpu-operator"}, {GPU: "2"}),
    "MIG single": Way(
        {"platform": "gpu-operator", "gpuOperator": {"migStrategy": "single"}},
        {GPU: "2"},
        pool={"mig": MIG},
        divided=True,
    ),
    "MIG mixed": Way(
        {"platform": "gpu-operator", "gpuOperator": {"migStrategy": "mixed"}},
        {"nvidia.com/mig-1g.5gb": "2"},
        pool={"mig": MIG},
        divided=True,
    ),
    "gpu-manager": Way({"platform": "gpu-manager"}, {"tencent.com/vcuda-core": "200"}),
    "DRA": Way({"platform": "dra"}, {}),
}


def declared(stack: str, way: Way) -> Json:
    """Return the stack configuration of a way of advertising GPUs."""
    return {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{stack}"},
        "pools": [{"name": "a100", "nodes": ["gpu-[1-3]"], "gpusPerNode": GPUS, **way.pool}],
        "validation": {"timeoutSeconds": 120},
        **way.sections,
    }


def holder(way: Way, node: str) -> Json:
    """Return a workload's pod that uses some GPUs of a node."""
    container: Json = {"name": "train", "image": "x", "resources": {"limits": way.holds}}
    spec: Json = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if not way.holds:
        container["resources"] = {"claims": [{"name": "gpus"}]}
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "train"}]
    return {"metadata": {"name": "train"}, "spec": spec}


def claim(way: Way) -> Json:
    """Return the ResourceClaimTemplate for the workload's pod."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": way.held}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "train"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}},
    }
