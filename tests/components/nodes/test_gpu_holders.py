"""The devices that pods hold on a node are counted as the scheduler counts them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.nodes.gpu_holders import free, holders_of, list_pods, pods_by_node
from gpu_cluster.nodes.inspect import advertised, gpus, shortfall
from gpu_cluster.nodes.pods import pod_on_node
from gpu_cluster.platforms.base import Offer
from tests.fixtures.api import client

GPU = "nvidia.com/gpu"


def container(amount: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "c",
        "resources": {"limits": {GPU: amount}, "requests": {GPU: amount}},
        **fields,
    }


def pod(*amounts: str, init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": "train", "uid": "u-1"},
        "spec": {
            "containers": [container(amount) for amount in amounts],
            "initContainers": list(init),
        },
        "status": {"phase": "Running"},
    }


def node(allocatable: str, capacity: str = "") -> dict[str, Any]:
    status = {"allocatable": {GPU: allocatable}, "capacity": {GPU: capacity or allocatable}}
    return {"metadata": {"name": "gpu-1"}, "spec": {}, "status": status}


SIDECAR = container("1", restartPolicy="Always")


@pytest.mark.parametrize(
    ("init", "app", "devices"),
    [
        ((SIDECAR, container("2")), "1", 3),
        ((container("2"), SIDECAR), "1", 2),
        ((SIDECAR, SIDECAR, container("4")), "1", 6),
        ((container("4"), SIDECAR), "8", 9),
        ((container("4"),), "1", 4),
    ],
)
def test_an_init_container_counts_with_the_sidecars_started_before_it(
    init: tuple[dict[str, Any], ...], app: str, devices: int
) -> None:
    training = pod(app, init=init)
    assert pod_on_node(training).gpus == devices
    assert holders_of([training], [GPU])[0].amounts == {GPU: devices}
    assert free(node("16"), [Offer(GPU, 16, 16)], holders_of([training], [GPU])) == {
        GPU: 16 - devices
    }


@pytest.mark.parametrize(("written", "devices"), [("1k", 1000), ("2k", 2000), ("1e3", 1000)])
def test_a_thousand_devices_are_counted_however_the_api_server_writes_them(
    written: str, devices: int
) -> None:
    assert gpus(node(written)) == gpus(node(written), "capacity") == devices
    assert advertised(node(written)) == {GPU: devices}
    assert shortfall(node(written), devices, {GPU: devices}) == ""
    assert holders_of([pod(written)], [GPU])[0].amounts == {GPU: devices}
    assert free(node(written), [Offer(GPU, devices, 1)], holders_of([pod("1")], [GPU])) == {
        GPU: devices - 1
    }


@pytest.mark.parametrize("written", ["", "many", "-1", "1e1000", "16Ei", "9" * 5000])
def test_what_no_node_can_have_counts_as_none(written: str) -> None:
    assert gpus(node(written)) == 0


def test_a_list_of_all_pods_leaves_out_what_nobody_reads() -> None:
    heavy = {"env": [{"name": "a", "value": "x" * 1_000}], "args": ["x"], "command": ["x"]}
    large = pod("1", init=(container("2", **heavy),))
    large["spec"]["containers"][0] |= heavy
    large["metadata"] |= {
        "managedFields": [{}],
        "annotations": {"kubernetes.io/config.mirror": "x"},
    }
    light = pod("1", init=(container("2"),))
    light["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"items": [large], "metadata": {}})

    assert asyncio.run(list_pods(client(answer))) == [light]


def test_of_the_pods_of_nodes_only_what_is_read_is_kept() -> None:
    mine, finished, elsewhere = pod("1"), pod("2"), pod("4")
    for one, name in ((mine, "gpu-1"), (finished, "gpu-1"), (elsewhere, "gpu-2")):
        one["spec"]["nodeName"] = name
    pages = iter(
        [{"items": [mine, elsewhere], "metadata": {"continue": "x"}}, {"items": [finished]}]
    )

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=next(pages))

    found = pods_by_node(client(answer), ["gpu-1"], lambda _, one: pod_on_node(one).gpus - 2)
    assert asyncio.run(found) == {"gpu-1": [-1]}
