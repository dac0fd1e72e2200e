"""Hypothesis strategies for pods, pod templates and their resources, with plain and odd values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

GPU, CORE, HCA = "nvidia.com/gpu", "tencent.com/vcuda-core", "rdma/hca"
ODD = (
    *(1, 2, 0, -1, 0.5, 1.0, 1e3, None, "1", "2", "01", "+1", "1000m", "500m", "0.9999999"),
    *("1.0001", "1k", "1e3", "1Ki", "0x8", "", " 1", "1.5", "-0.5", "2000m", "1E", "one"),
    *("10000000000000000", "1e16", "99999999999999999.5", "1e300", "8Ei", "1K", ".", "1n", "-0"),
)
AMOUNTS = st.one_of(
    st.sampled_from(ODD),
    st.integers(0, 10),
    st.from_regex(r"[0-9]{1,3}(\.[0-9]{0,4})?(|m|k|u|Ki|e[0-9]|E-[1-3])", fullmatch=True),
)
NAMES = (
    *("gpu", "nvidia.com/GPU", "nvidia.com/gpus", "Nvidia.com/gpu", "limits.nvidia.com/gpu"),
    *("requests.nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu", "storage", "a/b/c", "x/", "/x"),
    *("example.com/a_b", "example.com/-a", "example..com/a", "cpu", "memory", "limits.a/b"),
    *("example.com/" + "a" * 63, "example.com/" + "a" * 64, "a" * 244 + "/a", "a" * 245 + "/a"),
)
# Half of the amounts are plausible, so that manifests are often accepted and often rejected.
PLAIN = st.sampled_from([1, "1", "1000m", 2])
LISTS = st.dictionaries(st.sampled_from([GPU, CORE, HCA]), st.one_of(PLAIN, AMOUNTS), max_size=2)
KINDS = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
_GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1", "PodTemplate": "v1"}
KINDS += ("ReplicationController", "PodTemplate")


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    limits = draw(LISTS)
    kind = draw(st.sampled_from(["limits", "equal", "any", "none", "name"]))
    if kind == "none":
        return {}
    if kind == "limits":
        return {"limits": limits}
    if kind == "name" and draw(st.booleans()):
        name = draw(st.sampled_from(NAMES))
        return {"limits": {name: 2}, "requests": {name: 2} if draw(st.booleans()) else {}}
    return {"limits": limits, "requests": limits if kind != "any" else draw(LISTS)}


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    def container(name: str) -> dict[str, Any]:
        return {"name": name, "image": "cuda", "resources": draw(resources())}

    init = [container(f"init-{index}") for index in range(draw(st.integers(0, 2)))]
    for init_container in init:
        if draw(st.booleans()):
            init_container["restartPolicy"] = "Always"
    spec: dict[str, Any] = {
        "containers": [container(f"app-{index}") for index in range(draw(st.integers(1, 2)))],
        "initContainers": init,
        "restartPolicy": "Always",
    }
    if draw(st.integers(0, 7)) == 0:
        level = draw(st.sampled_from([GPU, HCA, "cpu", "memory"]))
        spec["resources"] = {"limits": {level: 1000}}
    return spec


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Generate an object of any kind with a pod; only its resources may be invalid."""
    spec, kind = draw(pod_specs()), draw(st.sampled_from(("Pod", *KINDS)))
    return wrapped(kind, spec)


def wrapped(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a kind with a pod's spec, complete enough for the API server."""
    labels = {"app": "a"}
    if kind in ("Job", "CronJob"):
        spec = {**spec, "restartPolicy": "Never"}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": spec}
    head = {"apiVersion": _GROUPS.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": "a"}}
    if kind == "Pod":
        return {**head, "spec": spec}
    if kind == "PodTemplate":
        return {**head, "template": template}
    if kind == "ReplicationController":
        return {**head, "apiVersion": "v1", "spec": {"selector": labels, "template": template}}
    if kind == "Job":
        return {**head, "spec": {"template": template}}
    if kind == "CronJob":
        job = {"spec": {"template": template}}
        return {**head, "spec": {"schedule": "0 0 * * *", "jobTemplate": job}}
    body: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        body["serviceName"] = "a"
    return {**head, "spec": body}
