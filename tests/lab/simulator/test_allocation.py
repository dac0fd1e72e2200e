"""Allocation of simulated GPU devices to containers, tested without a cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_cluster_lab.simulator.controller import allocation, devices
from gpu_cluster_lab.simulator.controller.allocation import NotEnough, Want

GPU = "nvidia.com/gpu"
SHARED = {"sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]}}}


def asked(count: int, resource: str = GPU) -> list[Want]:
    return [Want(f"gpu-{index}", resource, 1) for index in range(count)]


def uuids(given: allocation.Given) -> list[str]:
    return [item.uuid for many in given.values() for item in many]


def test_each_container_gets_a_device_of_its_own() -> None:
    given = allocation.allocate(devices.whole("n", range(8)), [], asked(8))
    assert len(set(uuids(given))) == 8
    assert all(re.fullmatch(r"GPU-00000000(-[0-9a-f]{4}){3}-[0-9a-f]{12}", u) for u in uuids(given))


def test_uuids_stay_with_their_node_and_differ_between_nodes() -> None:
    first, again, other = (
        {item.uuid for item in devices.whole(node, range(8))} for node in ("a", "a", "b")
    )
    assert first == again
    assert not first & other


def test_replicas_are_spread_over_the_gpus_that_are_used_least() -> None:
    result = devices.devices("n", range(4), SHARED, "", {})
    assert devices.count(result) == {GPU: 16}
    given = allocation.allocate(result, [], asked(4))
    assert len(set(uuids(given))) == 4
    busy = [item.id for item in result if item.index == 0][:3]
    assert result[0].uuid not in uuids(allocation.allocate(result, busy, asked(3)))


def test_instances_are_devices_with_their_own_uuids() -> None:
    result = devices.devices("n", range(2), {}, "mixed", {"1g.5gb": 7})
    given = allocation.allocate(result, [], asked(14, "nvidia.com/mig-1g.5gb"))
    assert len(set(uuids(given))) == 14
    gpu, instance = devices.listing(given["gpu-0"])
    assert re.fullmatch(r"GPU 0: .* \(UUID: GPU-[0-9a-f-]{36}\)", gpu)
    assert re.fullmatch(r"  MIG 1g\.5gb +Device  0: \(UUID: MIG-[0-9a-f-]{36}\)", instance)


def test_what_others_have_is_not_given_again() -> None:
    result = devices.whole("n", range(4))
    given = allocation.allocate(result, [result[1].id], asked(3))
    assert result[1].uuid not in uuids(given)
    with pytest.raises(NotEnough, match=r"nvidia.com/gpu. Requested: 1, Available: 0, which is"):
        allocation.allocate(result, [result[1].id], asked(4))


def test_a_card_of_gpu_manager_is_a_hundred_units() -> None:
    def pod(units: str) -> dict[str, Any]:
        resources = {"limits": {devices.CORE: units, "memory": "1Gi"}}
        return {"spec": {"containers": [{"name": "a", "resources": resources}]}}

    assert allocation.wants(pod("100"), [devices.CORE]) == [Want("a", devices.CORE, 1)]
    assert allocation.wants(pod("30"), [devices.CORE]) == [Want("a", devices.CORE, 1)]


def test_a_claim_s_device_is_the_one_that_the_scheduler_chose() -> None:
    result = {"driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-3"}
    claim = {"status": {"allocation": {"devices": {"results": [result]}}}}
    container = {"name": "gpu-0", "resources": {"claims": [{"name": "gpu-0"}]}}
    outcome = devices.whole("n", range(8))
    pod = {"spec": {"containers": [container]}}
    given = allocation.of_claims("n", pod, {"gpu-0": claim}, outcome)
    assert uuids(given) == [outcome[3].uuid]
