"""The policies check requests that only some of Kubernetes 1.35, 1.36 and 1.37 accept.

The environment variable `GPU_CLUSTER_KUBERNETES` selects the version of the API server. Sources:
the feature gates that the tests name, in pkg/features/kube_features.go of kubernetes v1.35.4,
v1.36.3 and v1.37.2.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gpu_cluster_lab.toolchain.pins import KUBERNETES
from gpu_cluster_lab.toolchain.versions import numbers
from gpu_rules.rules import evaluate
from tests.policies.admission.cluster import CONTEXTS, GPU, Answer, create, delete, edit

Json = dict[str, Any]
SPACE = "plugin"
SIZES = {"cpu": "1", "memory": "1Gi"}
FROM_1_36 = numbers(KUBERNETES) >= (1, 36, 0)

pytestmark = pytest.mark.slow


def container(name: str, **limits: str) -> Json:
    sizes = {**SIZES, **limits}
    return {"name": name, "image": "a:1", "resources": {"limits": sizes, "requests": sizes}}


def spec(**more: Any) -> Json:
    tolerated = [{"key": GPU, "operator": "Exists"}]
    return {"tolerations": tolerated, "containers": [container("a", **{GPU: "1"})], **more}


def made(api: httpx.Client, version: str, kind: str, name: str, spec: Json) -> Json:
    """Create an object on the API server and return its manifest."""
    manifest = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }
    said = create(api, manifest, dry=False)
    assert said.taken, said.text
    return manifest


@pytest.mark.promise("A suspended Job that asks for more GPUs later is judged like a new one.")
def test_a_suspended_job_that_grows_is_judged(api: httpx.Client) -> None:
    """The gate MutablePodResourcesForSuspendedJobs allows such a change from 1.36 on."""
    template = {"spec": spec(restartPolicy="Never")}
    job = made(api, "batch/v1", "Job", "grows", {"suspend": True, "template": template})

    def grow(live: Json) -> None:
        resources = live["spec"]["template"]["spec"]["containers"][0]["resources"]
        resources["limits"][GPU] = resources["requests"][GPU] = "16"

    said = edit(api, job, grow)
    assert said.taken is FROM_1_36, said.text
    assert said.taken or "immutable" in said.text
    assert ("GPU028" in said.rules) is FROM_1_36
    delete(api, job)


def resized(api: httpx.Client, pod: Json, *path: str | int, **sizes: str) -> Answer:
    """Set requests and limits at a path of a pod's spec through the subresource `resize`."""

    def grow(live: Json) -> None:
        place: Any = live["spec"]
        for step in path:
            place = place[step]
        for given in place["resources"].values():
            given.update(sizes)

    return edit(api, pod, grow, subresource="/resize")


def test_gpus_cant_be_resized_in_any_version(api: httpx.Client) -> None:
    pod = made(api, "v1", "Pod", "gpus", spec())
    assert resized(api, pod, "containers", 0, memory="2Gi").taken
    said = resized(api, pod, "containers", 0, **{GPU: "16"})
    assert said.status == 422, said.text
    delete(api, pod)


def whole_pod(name: str, **resources: Json) -> Json:
    """Return a pod with pod-level CPU and memory, whose container requests a GPU."""
    own = {"name": "a", "image": "a:1", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec(containers=[own], resources=resources),
    }


@pytest.mark.parametrize(
    ("resources", "judged"),
    [
        ({"limits": SIZES}, False),
        ({"limits": {**SIZES, "memory": "2Gi"}, "requests": SIZES}, True),
        ({"requests": SIZES}, True),
        ({"limits": {"memory": "1Gi"}}, True),
    ],
    ids=["equal", "beyond", "without limit", "without cpu"],
)
def test_what_a_pod_asks_for_as_a_whole_is_judged_as_in_the_check(
    api: httpx.Client, resources: Json, judged: bool
) -> None:
    manifest = whole_pod("asks", **resources)
    said = create(api, manifest)
    assert said.taken, said.text
    found = {violation.rule.id for violation in evaluate(manifest, CONTEXTS[SPACE])}
    assert ("GPU050" in said.rules, "GPU050" in found) == (judged, judged)


def test_the_resources_of_a_pod_are_resized_from_1_36_on(api: httpx.Client) -> None:
    """The feature gate InPlacePodLevelResourcesVerticalScaling allows this from 1.36 on."""
    # A resize must not change the pod's QoS class. It is Burstable, because the CPU limit is higher
    # than the CPU request.
    pod = whole_pod("whole", limits={**SIZES, "cpu": "2"}, requests=SIZES)
    assert create(api, pod, dry=False).taken
    said = resized(api, pod, memory="2Gi")
    assert said.taken is FROM_1_36, said.text
    assert said.rules == frozenset()

    def burst(live: Json) -> None:
        live["spec"]["resources"]["limits"]["memory"] = "4Gi"

    said = edit(api, pod, burst, subresource="/resize")
    assert said.taken is FROM_1_36, said.text
    assert said.rules == ({"GPU050"} if FROM_1_36 else set())
    delete(api, pod)


@pytest.mark.parametrize("policy", ["Always", ""], ids=["sidecar", "init"])
def test_sidecars_are_resized_in_each_version_and_init_containers_from_1_36_on(
    api: httpx.Client, policy: str
) -> None:
    """The gate InPlacePodVerticalScalingInitContainers allows init containers from 1.36 on."""
    first = container("first") | ({"restartPolicy": policy} if policy else {})
    pod = made(api, "v1", "Pod", f"with-{policy.lower() or 'init'}", spec(initContainers=[first]))
    said = resized(api, pod, "initContainers", 0, memory="2Gi")
    assert said.taken is (bool(policy) or FROM_1_36), said.text
    delete(api, pod)
