"""Node labels that a removed GPU Operator has left are removed; other labels stay."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import APPLY
from gpu_cluster.kubernetes.resources import LAYOUTS, MIG_LABEL
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import node_scheduling as scheduling
from gpu_cluster.platforms.gpu_operator import operator_labels
from gpu_cluster.platforms.gpu_operator.values import NODE_ANNOTATIONS, NODE_LABELS
from gpu_cluster.platforms.requests import NodeKeysRequest
from gpu_cluster.requests import PREVIOUS, write
from gpu_cluster.rollout.mig_targets import APPLIED
from tests.proofs.e2e.project import Project
from tests.proofs.platform import ways
from tests.proofs.platform.ways import look

Json = dict[str, Any]

# Labels as the GPU Operator and GPU feature discovery write them on nodes.
LEFT = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.driver": "true",
    "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    "nvidia.com/mig.config": "all-disabled",
}


def test_left_labels_go_and_those_of_others_and_ours_stay(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(project)
    merge = {"content_type": "application/merge-patch+json"}
    somebody = {"metadata": {"labels": {"nvidia.com/gpu.product": "kept"}}}
    project.request("PATCH", "nodes/gpu-2", body=somebody, **merge)
    request = NodeKeysRequest(
        context=f"gpu-cluster-{project.stack}",
        labels=tuple(NODE_LABELS),
        annotations=tuple(NODE_ANNOTATIONS),
    )
    noted = project.ask(lambda _: operator_labels.note(request))
    monkeypatch.setenv(PREVIOUS, write(noted))
    left = {"metadata": {"labels": LEFT}}
    for name in ("gpu-1", "gpu-2"):
        project.request("PATCH", f"nodes/{name}", body=left, **merge)
    layout = {"labels": {MIG_LABEL: "all-1g.5gb"}, "annotations": {APPLIED: "all-1g.5gb"}}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", **layout}}
    params = {"fieldManager": f"gpu-cluster-x{LAYOUTS}", "force": "true"}
    project.request("PATCH", "nodes/gpu-1", body=body, content_type=APPLY, params=params)
    # A stack with the device plugin was deployed meanwhile, and manages one of these labels.
    declared = load(ways.declared(project.stack, "device-plugin"))
    pools = [*resolve(declared, "test").scheduling.pools]
    project.ask(lambda _: scheduling.apply(pools[0]))

    project.ask(lambda _: operator_labels.remove(request))
    findings = look(project)
    for name in ("gpu-1", "gpu-2"):
        labels = findings[name][0]
        assert {key for key in LEFT if key in labels} == {"nvidia.com/gpu.present"}
    assert findings["gpu-2"][0]["nvidia.com/gpu.product"] == "kept"
    divided = project.request("GET", "nodes/gpu-1")["metadata"]
    assert APPLIED not in divided.get("annotations", {})
    assert not [each for each in divided["managedFields"] if each["manager"].endswith(LAYOUTS)]

    project.ask(lambda _: scheduling.release(pools[0]))
    nobody = {"metadata": {"labels": {"nvidia.com/gpu.product": None}}}
    project.request("PATCH", "nodes/gpu-2", body=nobody, **merge)
    assert look(project) == before
