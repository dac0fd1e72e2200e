"""Install the simulated GPU Operator in a running embedded cluster: CRD, pod, ClusterPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator.api import ApiError
from gpu_cluster_lab.simulator.controller import operands
from gpu_cluster_lab.simulator.controller.discovery import PCI
from tests.proofs.simulator.running import Running, until

CRD = Path(simulator.__file__).parent / "charts/gpu-operator/crds/nvidia.com_clusterpolicies.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABELS = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}


def start_operator(cluster: Running) -> None:
    """Create the chart's CRD, and start the operator's pod on the control-plane node."""
    cluster.request("POST", CRDS, yaml.safe_load(CRD.read_text()))
    template = {
        "metadata": {"labels": LABELS},
        "spec": {
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "containers": [{"name": "gpu-operator", "image": "operator"}],
        },
    }
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    body = {"metadata": {"name": "gpu-operator"}, "spec": spec}
    cluster.request("POST", DEPLOYMENTS, body)
    cluster.discover()
    until(lambda: cluster.node("gpu-1")["metadata"]["labels"], lambda labels: PCI in labels)


@contextmanager
def operating(cluster: Running) -> Iterator[None]:
    """Run the operator while the context lasts; then remove its Deployment and CRD."""
    start_operator(cluster)
    try:
        yield
    finally:
        if any(item["metadata"]["name"] == "gpu-operator" for item in cluster.items(DEPLOYMENTS)):
            path = f"{DEPLOYMENTS}/gpu-operator"
            cluster.request("DELETE", path, propagationPolicy="Background")
        cluster.request("DELETE", f"{CRDS}/clusterpolicies.nvidia.com")
        until(lambda: cluster.items(CRDS), lambda crds: not crds)


def create_policy(cluster: Running, **spec: Any) -> None:
    """Create a ClusterPolicy with this spec."""

    def created() -> bool:
        try:
            body = {
                "apiVersion": operands.API_VERSION,
                "kind": "ClusterPolicy",
                "metadata": {"name": operands.POLICY},
                "spec": spec,
            }
            cluster.request("POST", operands.POLICIES, body)
        except ApiError as error:
            # The API server needs a moment until it accepts objects of a new CRD.
            if error.code != 404:
                raise
            return False
        return True

    until(created, bool)
