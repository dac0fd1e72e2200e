"""DRA devices that pods request by the name of an extended resource (Kubernetes 1.36 and later).

The scheduler creates the ResourceClaim of such a pod; the pod's own spec doesn't mention the claim.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes.gpu_holders import holders_of_claims
from gpu_cluster_lab.toolchain.pins import KUBERNETES
from gpu_cluster_lab.toolchain.versions import numbers
from tests.proofs.simulator.running import Json, Running, until

RESOURCES = "/apis/resource.k8s.io/v1"
SLICES, CLASSES = f"{RESOURCES}/resourceslices", f"{RESOURCES}/deviceclasses"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
RESOURCE = "example.com/gpu"
SLICE: Json = {
    "metadata": {"name": "offered"},
    "spec": {
        "driver": DRA_DRIVER,
        "nodeName": "gpu-1",
        "pool": {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}"} for index in range(4)],
    },
}
CLASS: Json = {
    "metadata": {"name": "offered"},
    "spec": {
        "extendedResourceName": RESOURCE,
        "selectors": [{"cel": {"expression": f'device.driver == "{DRA_DRIVER}"'}}],
    },
}
POD: Json = {
    "metadata": {"name": "asks"},
    "spec": {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "cuda", "image": "cuda", "resources": {"limits": {RESOURCE: "2"}}}],
    },
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        numbers(KUBERNETES) < (1, 36, 0), reason=f"off by default in Kubernetes {KUBERNETES}"
    ),
]


@pytest.fixture
def offering(cluster: Running) -> Iterator[Running]:
    """Advertise four GPUs of a node by a DeviceClass that has the name of an extended resource."""
    cluster.request("POST", SLICES, SLICE)
    cluster.request("POST", CLASSES, CLASS)
    yield cluster
    cluster.request("DELETE", f"{PODS}/asks")
    until(lambda: cluster.items(CLAIMS), lambda claims: not claims)
    cluster.request("DELETE", f"{CLASSES}/offered")
    cluster.request("DELETE", f"{SLICES}/offered")


def test_who_asks_by_a_resources_name_holds_gpus_too(offering: Running) -> None:
    offering.request("POST", PODS, POD)
    pod = until(
        lambda: offering.request("GET", f"{PODS}/asks"), lambda pod: "nodeName" in pod["spec"]
    )
    (holder,) = holders_of_claims(offering.items(CLAIMS), "another")["gpu-1"]
    claim = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert (holder.name, holder.amounts) == (f"default/{claim}", {DRA_DRIVER: 2})
