"""The simulated HAMi admits and places pods as HAMi's own source does.

Source: Project-HAMi/HAMi v2.10.0 (4707fb02), pkg/device/nvidia/device.go, pkg/scheduler/webhook.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE

Json = dict[str, Any]
SPREAD = ("binpack", "spread")


def node(name: str = "gpu-1", gpus: int = 2, broken: int = 0, **spec: Any) -> Json:
    devices = whole(name, range(gpus))
    text = hami.registration(devices, devices[broken:], {"deviceSplitCount": 10})
    return {
        "metadata": {"name": name, "labels": {}, "annotations": {hami.REGISTERED: text}},
        "spec": spec,
    }


def pod(*containers: Json, notes: dict[str, str] | None = None, **spec: Any) -> Json:
    named = [
        {"name": f"c{number}", "resources": {"limits": limits}}
        for number, limits in enumerate(containers)
    ]
    return {
        "metadata": {"name": "p", "namespace": "team", "annotations": notes or {}},
        "spec": {"containers": named, **spec},
    }


def admitted(*containers: Json, quota: hami.Quota | None = None, **spec: Any) -> Json:
    return hami.admit(pod(*containers, **spec), "nvidia", quota or hami.Quota())


def placed(made: hami.Placement, on: Json) -> Json:
    """Return a pod with what the scheduler noted on it."""
    notes = {hami.ASSIGNED_NODE: made.node, hami.ALLOCATED: hami.encode(made.shares)}
    return {**on, "metadata": {**on["metadata"], "annotations": notes}}


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({HAMI_MEMORY: "3000"}, {HAMI_MEMORY: "3000", GPU: "1"}),
        ({GPU: "2"}, {GPU: "2", HAMI_CORES: "100"}),
        ({GPU: "1", HAMI_PERCENTAGE: "100"}, {GPU: "1", HAMI_PERCENTAGE: "100", HAMI_CORES: "100"}),
        ({GPU: "1", HAMI_PERCENTAGE: "50"}, {GPU: "1", HAMI_PERCENTAGE: "50"}),
        ({GPU: "1", HAMI_MEMORY: "3000"}, {GPU: "1", HAMI_MEMORY: "3000"}),
        ({HAMI_CORES: "30"}, {HAMI_CORES: "30", GPU: "1"}),
    ],
)
def test_the_webhook_completes_a_containers_limits(limits: Json, wanted: Json) -> None:
    result = admitted(limits)
    assert result["spec"]["containers"][0]["resources"]["limits"] == wanted
    assert result["spec"]["schedulerName"] == hami.SCHEDULER
    assert result["spec"]["runtimeClassName"] == "nvidia"


def test_the_webhook_leaves_pods_without_gpus_and_those_of_other_schedulers() -> None:
    plain = pod({"cpu": "1"})
    assert hami.admit(plain, "nvidia", hami.Quota()) == plain
    other = pod({GPU: "1"}, schedulerName="volcano")
    assert hami.admit(other, "nvidia", hami.Quota()) == other


@pytest.mark.parametrize(
    ("limits", "spec", "quota", "message"),
    [
        ({GPU: "1", HAMI_PERCENTAGE: "150"}, {}, {}, "between 0 and 100"),
        ({GPU: "1"}, {"nodeName": "gpu-1"}, {}, "pod has node assigned"),
        ({GPU: "2", HAMI_MEMORY: "3000"}, {}, {HAMI_MEMORY: 5000}, "exceeding resource quota"),
        ({GPU: "1", HAMI_CORES: "60"}, {}, {HAMI_CORES: 50}, "exceeding resource quota"),
    ],
)
def test_the_webhook_refuses_what_hamis_own_refuses(
    limits: Json, spec: Json, quota: dict[str, int], message: str
) -> None:
    with pytest.raises(hami.Denied, match=message):
        admitted(limits, quota=hami.Quota(quota), **spec)


def test_a_privileged_container_gets_no_gpu() -> None:
    asked = pod({GPU: "1"})
    asked["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(hami.Denied, match="container c0 is privileged"):
        hami.admit(asked, "", hami.Quota())


def test_shares_of_two_pods_fit_one_gpu_until_its_memory_is_used() -> None:
    one = node(gpus=1)
    half = admitted({GPU: "1", HAMI_MEMORY: "50000"})
    first = hami.place([one], half, [], hami.Quota(), SPREAD)
    assert [[share.memory for share in each] for each in first.shares] == [[50000]]
    second = hami.place([one], half, [placed(first, half)], hami.Quota(), SPREAD)
    assert (second.node, second.reasons) == ("", {"gpu-1": "1/1 CardInsufficientMemory"})
    small = admitted({GPU: "1", HAMI_MEMORY: "30000"})
    assert hami.place([one], small, [placed(first, half)], hami.Quota(), SPREAD).node == "gpu-1"


def test_each_container_of_a_pod_gets_a_gpu_of_its_own_by_the_policy_spread() -> None:
    shares = admitted(*[{GPU: "1", HAMI_MEMORY: "2048", HAMI_CORES: "10"}] * 2)
    made = hami.place([node()], shares, [], hami.Quota(), SPREAD)
    assert len({share.uuid for each in made.shares for share in each}) == 2
    packed = hami.place([node()], shares, [], hami.Quota(), ("binpack", "binpack"))
    assert len({share.uuid for each in packed.shares for share in each}) == 1


@pytest.mark.parametrize(
    ("limits", "broken", "reason"),
    [
        ({GPU: "3"}, 0, "NodeInsufficientDevice"),
        ({GPU: "1"}, 2, "2/2 CardNotHealth"),
        ({GPU: "2"}, 1, "1/2 AllocatedCardsInsufficientRequest, 1/2 CardNotHealth"),
        ({GPU: "1", HAMI_MEMORY: "90000"}, 0, "2/2 CardInsufficientMemory"),
    ],
)
def test_a_pod_that_does_not_fit_gets_hamis_words(limits: Json, broken: int, reason: str) -> None:
    made = hami.place([node(broken=broken)], admitted(limits), [], hami.Quota(), SPREAD)
    assert made.reasons == {"gpu-1": reason}
    assert hami.unschedulable_message(made) == (
        f"0/1 nodes are available: 1 {reason}. no new claims to deallocate, preemption: 0/1 nodes "
        "are available: 1 No preemption victims found for incoming pod."
    )
    assert hami.filtering_events(made)[-1] == "no available node, 1 nodes do not meet"


def test_a_whole_gpu_and_a_share_exclude_each_other() -> None:
    one = node(gpus=1)
    share, all_of_it = admitted({GPU: "1", HAMI_MEMORY: "1000"}), admitted({GPU: "1"})
    held = placed(hami.place([one], share, [], hami.Quota(), SPREAD), share)
    made = hami.place([one], all_of_it, [held], hami.Quota(), SPREAD)
    assert made.reasons == {"gpu-1": "1/1 CardInsufficientMemory"}
    held = placed(hami.place([one], all_of_it, [], hami.Quota(), SPREAD), all_of_it)
    made = hami.place([one], share, [held], hami.Quota(), SPREAD)
    assert made.reasons == {"gpu-1": "1/1 CardInsufficientMemory"}


def test_a_quota_counts_whole_gpus_by_their_memory() -> None:
    hard = {"limits.nvidia.com/gpumem": "50000", "requests.nvidia.com/gpu": "4"}
    quota = hami.quota_of("team", [{"spec": {"hard": hard}}], [])
    made = hami.place([node(gpus=1)], admitted({GPU: "1"}), [], quota, SPREAD)
    assert made.reasons == {"gpu-1": "1/1 ResourceQuotaNotFit"}


def test_kube_schedulers_own_filters_go_first() -> None:
    tainted = node(taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    made = hami.place([tainted], admitted({GPU: "1"}), [], hami.Quota(), SPREAD)
    assert made.reasons == {"gpu-1": "node(s) had untolerated taint(s)"}
    assert hami.filtering_events(made) == []
    assert hami.unschedulable_message(made).endswith(
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_has_ended_holds_nothing() -> None:
    one, asked = node(gpus=1), admitted({GPU: "1"})
    held = placed(hami.place([one], asked, [], hami.Quota(), SPREAD), asked)
    assert hami.place([one], asked, [held], hami.Quota(), SPREAD).node == ""
    ended = {**held, "status": {"phase": "Succeeded"}}
    assert hami.place([one], asked, [ended], hami.Quota(), SPREAD).node == "gpu-1"
