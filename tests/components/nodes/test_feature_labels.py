"""Labels of features can be set by hand if no Node Feature Discovery writes them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_rules.faults import ConfigError

PCI = "feature.node.kubernetes.io/pci-10de.present"


def stack(platform: str, **sections: Any) -> dict[str, Any]:
    pool = {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8, "labels": {PCI: "true"}}
    start = {"version": "v1", "kubernetes": {"context": "c"}, "platform": platform}
    return {**start, "pools": [pool], **sections}


@pytest.mark.parametrize(
    ("platform", "sections"),
    [("gpu-operator", {"gpuOperator": {"nfd": False}}), ("device-plugin", {}), ("dra", {})],
)
def test_the_label_of_nvidias_devices_is_taken(platform: str, sections: dict[str, Any]) -> None:
    (pool,) = load(stack(platform, **sections)).pools
    assert pool.labels[PCI] == "true"


@pytest.mark.parametrize(
    ("platform", "sections", "cure"),
    [
        ("gpu-operator", {}, '"nfd: false" in gpuOperator'),
        ("device-plugin", {"devicePlugin": {"presence": "nfd"}}, '"presence: label"'),
    ],
)
def test_it_is_refused_beside_what_writes_it(
    platform: str, sections: dict[str, Any], cure: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(stack(platform, **sections))
    assert PCI in str(refused.value)
    assert cure in str(refused.value)


def test_other_keys_of_kubernetes_stay_reserved() -> None:
    document = stack("device-plugin")
    document["pools"][0]["labels"] = {"kubernetes.io/gpu": "true"}
    with pytest.raises(ConfigError, match="which Kubernetes keeps for itself"):
        load(document)
