"""A pod requests from its node what the scheduler of Kubernetes counts."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.kube.pod_resources import device_requests, pod_requests

GPU = "nvidia.com/gpu"


def container(name: str = "c", sidecar: bool = False, **requests: Any) -> dict[str, Any]:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **always}


def pod(*apps: Any, init: tuple[Any, ...] = (), status: Any = None, **spec: Any) -> dict[str, Any]:
    spec = {"containers": list(apps), "initContainers": list(init), **spec}
    return {"spec": spec, "status": status or {}}


def resized(name: str, actual: str, allocated: str | None = None) -> dict[str, Any]:
    allocation = {"allocatedResources": {"cpu": allocated}} if allocated else {}
    return {"name": name, "resources": {"requests": {"cpu": actual}}, **allocation}


PENDING = {"type": "PodResizePending"}


@pytest.mark.parametrize(
    ("apps", "init", "cpu"),
    [
        (("1", "2"), (), 3000),
        (("1", "2"), ("4",), 4000),
        (("1", "2"), ("4", "3"), 4000),
        (("1",), ("1!", "2"), 3000),
        (("1",), ("2", "1!"), 2000),
        (("500m",), ("1!", "250m!", "2", "3"), 4250),
        (("1",), ("2!", "3!"), 6000),
    ],
)
def test_init_containers_count_with_the_sidecars_before_them(
    apps: tuple[str, ...], init: tuple[str, ...], cpu: int
) -> None:
    starting = tuple(container(sidecar="!" in each, cpu=each.rstrip("!")) for each in init)
    running = (container(cpu=each) for each in apps)
    assert pod_requests(pod(*running, init=starting)) == {"cpu": cpu}


def test_each_container_requests_resources_of_its_own() -> None:
    counted = pod(container(cpu="1"), container(memory="2"), init=(container(**{GPU: "3"}),))
    assert pod_requests(counted) == {"cpu": 1000, "memory": 2000, GPU: 3000}


def test_a_resize_that_can_never_be_fulfilled_leaves_the_pod_what_it_has() -> None:
    status = {
        "resources": {"requests": {"memory": "3"}},
        "conditions": [{**PENDING, "reason": "Infeasible"}],
    }
    counted = pod(container(), resources={"requests": {"cpu": "1"}}, status=status)
    assert pod_requests(counted) == {"cpu": 0}


def test_a_limit_without_a_request_is_the_request() -> None:
    limits = {"cpu": "2", GPU: "1"}
    one = {"name": "c", "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    assert pod_requests(pod(one)) == {"cpu": 1000, GPU: 1000}


def test_the_resources_of_the_whole_pod_replace_the_sum_and_overhead_is_added() -> None:
    whole = {"requests": {"cpu": "8", "hugepages-2Mi": "4Mi", GPU: "8"}}
    counted = pod(container(cpu="1", memory="1", **{GPU: "1"}), resources=whole,
                  overhead={"cpu": "100m", "ephemeral-storage": "1"})  # fmt: skip
    expected = {"cpu": 8100, "memory": 1000, GPU: 1000, "ephemeral-storage": 1000}
    assert pod_requests(counted) == {**expected, "hugepages-2Mi": 4 * 2**20 * 1000}


@pytest.mark.parametrize(
    ("reported", "conditions", "cpu"),
    [
        (resized("c", "2"), [], 2000),
        (resized("c", "500m"), [], 1000),
        (resized("c", "500m", "3"), [], 3000),
        (resized("c", "500m", "750m"), [{**PENDING, "reason": "Infeasible"}], 750),
        (resized("c", "500m", "750m"), [{**PENDING, "reason": "Deferred"}], 1000),
        (resized("c", "500m"), [{"type": "Ready", "reason": "Infeasible"}], 1000),
        (resized("other", "5"), [], 1000),
        ({"name": "c", "allocatedResources": {"cpu": "5"}}, [], 1000),
    ],
)
def test_during_a_resize_the_largest_amount_counts(
    reported: dict[str, Any], conditions: list[Any], cpu: int
) -> None:
    status = {"containerStatuses": [reported], "conditions": conditions}
    assert pod_requests(pod(container(cpu="1"), status=status)) == {"cpu": cpu}


def test_only_a_sidecar_among_the_init_containers_is_resized() -> None:
    status = {"initContainerStatuses": [resized("c", "5")]}
    first, second = container(cpu="1"), container(cpu="1", sidecar=True)
    assert pod_requests(pod(init=(first,), status=status)) == {"cpu": 1000}
    assert pod_requests(pod(init=(second,), status=status)) == {"cpu": 5000}


def test_the_resources_of_the_whole_pod_are_resized_too() -> None:
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    whole = {"requests": {"cpu": "1"}}
    assert pod_requests(pod(container(), resources=whole, status=status)) == {"cpu": 3000}


def test_devices_are_whole_and_plausible() -> None:
    none = {"example.com/b": "0", "example.com/c": "many", "example.com/d": "1e9", "cpu": "4"}
    some = {GPU: "1k", "example.com/a": "1500m", "example.com/e": "999999999"}
    counted = pod(container(**none, **some, **{"x.kubernetes.io/a": 1}))
    expected = {GPU: 1000, "example.com/a": 2, "example.com/e": 999_999_999}
    assert device_requests(counted) == expected
