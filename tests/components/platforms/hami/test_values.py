"""Settings of HAMi reach its chart, and nodes advertise what the chart makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_cluster.charts.digests import chart_digest
from gpu_cluster.platforms.base import Offer
from gpu_cluster.platforms.findings import value_at
from gpu_cluster.platforms.hami.platform import SHARE
from tests.proofs.platform.clusters import cluster, pool
from tests.resolved import platform_of


@pytest.mark.parametrize(
    ("sections", "path", "wanted"),
    [
        ({}, "devicePlugin.deviceListStrategy", "volume-mounts"),
        (
            {"runtime": {"devicesByEnvironment": True}},
            "devicePlugin.deviceListStrategy",
            "envvar",
        ),
        ({}, "devicePlugin.runtimeClassName", None),
        ({"runtime": {"defaultRuntime": "runc"}}, "devicePlugin.runtimeClassName", "nvidia"),
        ({"hami": {"deviceSplitCount": 4}}, "devicePlugin.deviceSplitCount", 4),
        ({"hami": {"deviceMemoryScaling": 1.5}}, "devicePlugin.deviceMemoryScaling", 1.5),
        (
            {"hami": {"gpuPolicy": "binpack"}},
            "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy",
            "binpack",
        ),
        ({"hami": {"corePolicy": "force"}}, "devices.nvidia.gpuCorePolicy", "force"),
        ({}, "scheduler.service.type", "ClusterIP"),
        ({}, "scheduler.kubeScheduler.image.repository", "registry.k8s.io/kube-scheduler"),
    ],
)
def test_a_setting_reaches_the_chart(sections: dict[str, Any], path: str, wanted: object) -> None:
    values = platform_of(cluster("hami", **sections)).values()
    assert value_at(values, *path.split(".")) == wanted


def test_a_node_advertises_each_gpu_as_often_as_containers_may_share_it() -> None:
    declared = cluster("hami", hami={"deviceSplitCount": 4})
    platform = platform_of(declared)
    assert platform.offers(declared.pools[0]) == (Offer("nvidia.com/gpu", 32, 8, share=SHARE),)
    assert platform.monitored.resource == ("nvidia_com_gpu", 4)


@pytest.mark.promise("With HAMi, a GPU excluded by index gets no pod.")
def test_a_gpu_that_is_left_out_by_index_is_left_out_by_hamis_own_filter() -> None:
    declared = cluster("hami", pools=pool(unhealthyDevices={"gpu-3": {"index": [5, 3]}}))
    text = platform_of(declared).values()["devicePlugin"]["nodeConfiguration"]["config"]
    (node,) = json.loads(text)["nodeconfig"]
    assert (node["name"], node["filterdevices"]["index"]) == ("gpu-3", [3, 5])


def test_the_newest_chart_is_known_by_digest() -> None:
    assert chart_digest("hami", platform_of(cluster("hami")).version).startswith("sha256:")
