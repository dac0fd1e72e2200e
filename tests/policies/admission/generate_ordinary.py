"""Hypothesis strategy for pods that differ in a few fields from a pod that breaks no rule."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.policies.admission.cluster import GPU
from tests.policies.admission.generate_specs import CORE, VARIABLE, annotated

Json = dict[str, Any]

_DEVIATIONS = st.sampled_from(
    [
        {"tolerations": []},
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": GPU, "operator": "Exists"}]},
        {"nodeSelector": {"gpu": "a100"}},
        {"nodeSelector": {"gpu": "t4", "size": "2"}},
        {"nodeSelector": {"gpu": "none"}},
        {"nodeSelector": {"other": "x"}},
        {"affinity": {}},
        {"nodeName": "gpu-1"},
        {"runtimeClassName": "kata"},
        {"resourceClaims": [{"name": "a", "resourceClaimName": "one-gpu"}]},
        {"resourceClaims": [{"name": "a", "resourceClaimName": "nic"}]},
        {"resources": {"limits": {"cpu": 4}}},
        {"resources": {"limits": {"memory": "4Gi"}}},
        {"hostPID": True},
        {"volumes": []},
        {"volumes": [{"name": "shm", "emptyDir": {}}]},
        {"volumes": [{"name": "shm", "hostPath": {"path": "/dev"}}]},
    ]
)
_IN_CONTAINERS = st.sampled_from(
    [
        {"image": "cuda"},
        {"image": "cuda:latest"},
        {"image": f"cuda@sha256:{'0' * 64}"},
        {"volumeMounts": []},
        {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm/"}]},
        {"env": [{"name": VARIABLE, "value": "all"}]},
        {"env": [{"name": "A", "value": "all"}]},
        {"securityContext": {"privileged": True}},
        {"resources": {"limits": {GPU: 1}}},
        {"resources": {"limits": {GPU: 1, "cpu": 1}}},
        {"resources": {"limits": {GPU: 1, "memory": "1Gi"}, "requests": {"cpu": 1}}},
        {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
        {"resources": {"limits": {CORE: 100}}},
        {"restartPolicy": "Always"},
    ]
)


@st.composite
def ordinary_pods(draw: st.DrawFn, namespace: str) -> Json:
    """Generate a pod that differs in a few fields from a pod that breaks no rule."""
    size = {"cpu": "1", "memory": "1Gi"}

    def container(name: str) -> Json:
        limits = {"memory": "1Gi"}
        if draw(st.booleans()):
            limits[GPU] = draw(st.sampled_from(["0", "1", "1", "2", "3", "5", "9"]))
        mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
        made = {"name": name, "image": "cuda:13.0", "volumeMounts": mounts}
        return {**made, "resources": {"requests": size, "limits": limits}}

    containers = [container(f"app-{i}") for i in range(draw(st.integers(1, 2)))]
    init = [container(f"init-{i}") for i in range(draw(st.integers(0, 1)))]
    tolerations = [{"key": GPU, "operator": "Exists"}, {"key": "batch", "operator": "Exists"}]
    spec: Json = {
        "containers": containers,
        "initContainers": init,
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    if any(GPU in container["resources"]["limits"] for container in (*containers, *init)):
        spec["tolerations"] = tolerations
    for changes in draw(st.lists(_DEVIATIONS, max_size=1)):
        spec |= changes
    for changes in draw(st.lists(_IN_CONTAINERS, max_size=1)):
        which = draw(st.sampled_from([*containers, *init]))
        if "restartPolicy" not in changes or which in init:
            which |= changes
    if not spec["volumes"]:
        for given in (*containers, *init):
            given["volumeMounts"] = []
    metadata: Json = {"name": "a", "namespace": namespace}
    if draw(st.integers(0, 5)) == 0:
        metadata |= draw(annotated())
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
