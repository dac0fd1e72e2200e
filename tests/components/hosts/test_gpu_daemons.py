"""Pods of DaemonSets that use GPUs leave a node before its driver changes; others stay."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.rollout import Operands
from gpu_cluster.rollout.inspect import view
from gpu_cluster.rollout.operands import is_operand, uses_gpus

OPERANDS = Operands(spaces=("gpu-operator",), namespace="kube-system", labels={"name": "plugin"})


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a DaemonSet's pod in a namespace that the stack does not manage."""
    owners = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    metadata = {"namespace": "monitoring", "name": "d-1", "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"containers": [container or {"name": "c"}], **spec}}


def env(value: str) -> dict[str, Any]:
    return {"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]}


def limits(**amounts: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": amounts}}


@pytest.mark.parametrize(
    "each",
    [
        # A standalone dcgm-exporter, which requests no GPU (NVIDIA/gpu-operator issue 2570).
        pod(runtimeClassName="nvidia"),
        pod(env("all")),
        pod(limits(**{"nvidia.com/gpu": 1})),
        pod(limits(**{"nvidia.com/mig-1g.10gb": "1"})),
        pod(limits(**{"tencent.com/vcuda-core": "20"})),
        pod(volumes=[{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}]),
    ],
)
def test_daemons_with_gpus_leave_the_node(each: dict[str, Any]) -> None:
    assert is_operand(each, OPERANDS)
    # A pod that no DaemonSet owns is not an operand, because a drain evicts it.
    each["metadata"]["ownerReferences"] = []
    assert uses_gpus(each)
    assert not is_operand(each, OPERANDS)


@pytest.mark.parametrize(
    "each",
    [
        pod(),
        pod(env("void")),
        pod(env("none")),
        pod(limits(**{"nvidia.com/gpu": "0", "cpu": "1"})),
        pod(volumes=[{"name": "d", "hostPath": {"path": "/dev"}}, {"name": "e", "emptyDir": {}}]),
        pod(runtimeClassName="gvisor"),
    ],
)
def test_daemons_without_gpus_stay(each: dict[str, Any]) -> None:
    assert not is_operand(each, OPERANDS)


def test_the_preview_names_daemons_with_gpus() -> None:
    node = {"metadata": {"name": "gpu-1"}, "spec": {}}
    seen = view(node, [pod(runtimeClassName="nvidia"), pod()], {}, ())
    assert seen.daemons == {"monitoring/DaemonSet d": 1}
    assert seen.evicts == {}
