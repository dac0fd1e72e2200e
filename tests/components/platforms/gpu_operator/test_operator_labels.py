"""Node labels that the GPU Operator leaves behind, and those that this program owns."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.platforms.gpu_operator.operator_labels import held, keys
from gpu_cluster.platforms.gpu_operator.values import NODE_ANNOTATIONS, NODE_LABELS, definitions


def entry(manager: str, operation: str, *labels: str) -> dict[str, Any]:
    """Return an entry of `managedFields`, as the API server writes it."""
    fields = {"f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_only_keys_with_the_operators_prefixes_are_found() -> None:
    labels = {
        "nvidia.com/gpu.present": "true",
        "feature.node.kubernetes.io/cpu-model.id": "1",
        # The operator's labels begin with `nvidia.com/gpu.`; this key lacks the final dot.
        "nvidia.com/gpu": "present",
        "kubernetes.io/os": "linux",
    }
    node = {"metadata": {"labels": labels, "annotations": {"nfd.node.kubernetes.io/x": "1"}}}
    assert keys(node, "labels", NODE_LABELS) == {*list(labels)[:2]}
    assert keys(node, "annotations", NODE_ANNOTATIONS) == {"nfd.node.kubernetes.io/x"}
    assert keys({"metadata": {}}, "labels", NODE_LABELS) == set()


def test_keys_are_ours_only_if_our_field_managers_applied_them() -> None:
    fields = [
        entry("gpu-cluster-a100", "Apply", "nvidia.com/gpu.present"),
        entry("gpu-cluster-a100", "Update", "nvidia.com/gpu.count"),
        entry("gpu-operator", "Apply", "nvidia.com/gpu.deploy.driver"),
    ]
    assert held({"metadata": {"managedFields": fields}}) == {
        "gpu-cluster-a100": {"labels": {"nvidia.com/gpu.present"}, "annotations": set()}
    }


@pytest.mark.parametrize(("version", "dra"), [("v26.3.1", False), ("v26.7.0", True)])
def test_definitions_of_dra_come_with_the_operator_that_has_them(version: str, dra: bool) -> None:
    assert ("gpuclusters.nvidia.com" in definitions(version)) is dra
    assert "clusterpolicies.nvidia.com" in definitions(version)
