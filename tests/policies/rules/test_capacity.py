# ruff: noqa: E501  a table reads best one case a line
"""How many GPUs a container, a pod, an update and a stack may request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, Mig, PluginFacts, PoolFacts, Sharing, Subject
from gpu_rules.rules.replicas import Fenceposts, fenceposts
from tests.policies.rules.cases import (
    CONTEXT,
    CORE,
    GPU,
    MEMORY,
    MIG,
    POOL,
    SHARED,
    TAINT,
    container,
    gpus,
    paths,
    pod,
    resource,
    stack_ids,
    workload,
)
from tests.policies.rules.messages import judge, judge_stack

SLICED = PluginFacts(sharing=Sharing.TIME_SLICING, replicas=4)
RENAMED = replace(SLICED, renamed=True)


def known(**fields: Any) -> Context:
    return replace(CONTEXT, **fields)


FITS: list[tuple[str, Any, PluginFacts | None, bool]] = [
    ("all of a node", gpus(8), None, True),
    ("one more", gpus(9), None, False),
    ("shares count", gpus(32), SLICED, True),
    ("one share more", gpus(33), SLICED, False),
    ("shares by the old name", gpus(33), RENAMED, True),
    ("shares that no plugin is known to have", container({SHARED: 9}), None, True),
    ("shares that are not named so", container({SHARED: 33}), SLICED, True),
    ("shares by their name", container({SHARED: 32}), RENAMED, True),
    ("one more by its name", container({SHARED: 33}), RENAMED, False),
    ("MIG devices are not counted", gpus(50), PluginFacts(mig=Mig.SINGLE), True),
    ("another vendor's are not counted", container({"amd.com/gpu": 50}), None, True),
    ("one more, beside another vendor's", container({"amd.com/gpu": 1, GPU: 9}), None, False),
    ("cores", container({CORE: 800}), SLICED, True),
    ("one GPU of cores more", container({CORE: 900}), None, False),
]


@pytest.mark.parametrize(
    ("asked", "plugin", "fits"), [row[1:] for row in FITS], ids=[r[0] for r in FITS]
)
def test_a_pod_fits_a_node(asked: Any, plugin: PluginFacts | None, fits: bool) -> None:
    assert (paths("GPU007", pod(asked), known(plugin=plugin)) == []) == fits


def test_the_largest_pool_that_fits_counts() -> None:
    small, large = PoolFacts("t4", 2, (TAINT,)), PoolFacts("h100", 4, (TAINT,))
    (violation,) = (
        violation
        for violation in judge(pod(gpus(5)), Context(pools=(small, large)))
        if violation.rule.id == "GPU007"
    )
    assert (violation.found, violation.wanted) == (
        f"5 {GPU} in one pod",
        "at most 4, the amount of a node in pool h100",
    )


CAPS: list[tuple[str, Any, int | None, int | None, list[str]]] = [
    ("under both", pod(gpus(2), gpus(2)), 2, 4, []),
    ("a container over", pod(gpus(3), gpus(1)), 2, 4, ["spec.containers[0].resources.limits"]),
    ("the pod over", pod(gpus(2), gpus(2), gpus(1)), 2, 4, ["spec"]),
    ("the pod's cap alone", pod(gpus(5)), None, 4, ["spec"]),
    ("the container's cap alone", pod(gpus(1), gpus(1)), 1, None, []),
    ("none at all", pod(gpus(1)), 0, None, ["spec.containers[0].resources.limits"]),
    ("half a GPU of cores", pod(container({CORE: 50, MEMORY: 500})), 1, 1, []),
    ("two GPUs of cores", pod(container({CORE: 200})), 1, None, ["spec.containers[0].resources.limits"]),
    ("MIG devices", pod(container({MIG: 2})), 1, None, ["spec.containers[0].resources.limits"]),
    ("memory of a device is none", pod(container({GPU: 1, "nvidia.com/gpumem": 8000})), 1, 1, []),
    ("two kinds add up", pod(container({GPU: 1, MIG: 1})), 1, None, ["spec.containers[0].resources.limits"]),
    ("an unknown amount is none", pod(container({GPU: UNKNOWN})), 0, 0, []),
    ("a request counts", pod(container(None, {GPU: 2})), 1, None, ["spec.containers[0].resources.limits"]),
]  # fmt: skip


def test_a_resource_of_the_clusters_own_counts_as_a_device() -> None:
    own = known(max_gpus_per_container=2, resource_names=frozenset({"acme.com/gpu"}))
    place = ["spec.containers[0].resources.limits"]
    assert paths("GPU028", pod(container({"acme.com/gpu": 8})), own) == place
    assert paths("GPU028", pod(container({"acme.com/gpu": 1, GPU: 1})), own) == []
    assert paths("GPU028", pod(container({"other.com/gpu": 8})), own) == []
    memory = known(max_gpus_per_container=2, resource_names=frozenset({"nvidia.com/gpumem"}))
    assert paths("GPU028", pod(container({"nvidia.com/gpumem": 8000})), memory) == []


def claim(*requests: Any, kind: str = "ResourceClaim", api: str = "v1") -> dict[str, Any]:
    spec: Any = {"devices": {"requests": list(requests)}}
    if kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    return resource(kind, f"resource.k8s.io/{api}", spec=spec)


def exactly(count: Any = None, device_class: Any = "gpu.nvidia.com", **fields: Any) -> Any:
    given = {} if count is None else {"count": count}
    return {"name": "r", "exactly": {"deviceClassName": device_class, **given, **fields}}


CLAIMS: list[tuple[str, Any, list[str]]] = [
    ("under the cap", claim(exactly(4)), []),
    ("over it", claim(exactly(5)), ["spec.devices.requests"]),
    ("one by default", claim(exactly()), []),
    ("all of a node", claim(exactly(allocationMode="All")), ["spec.devices.requests"]),
    ("as the second", claim(exactly(1), exactly(4)), ["spec.devices.requests"]),
    ("no more of alternatives", claim({"name": "r", "firstAvailable": [exactly(4)["exactly"], exactly(4)["exactly"]]}), []),
    ("as a choice", claim({"name": "r", "firstAvailable": [exactly(1)["exactly"], exactly(5)["exactly"]]}), ["spec.devices.requests"]),
    ("of v1beta1", claim({"name": "r", "deviceClassName": "gpu.nvidia.com", "count": 5}, api="v1beta1"), ["spec.devices.requests"]),
    ("in a template", claim(exactly(5), kind="ResourceClaimTemplate"), ["spec.spec.devices.requests"]),
    ("of MIG devices", claim(exactly(5, "mig-1g.nvidia.com")), ["spec.devices.requests"]),
    ("of a class that the settings name", claim(exactly(5, "a100")), ["spec.devices.requests"]),
    ("of network cards", claim(exactly(5, "rdma.example.com")), []),
    ("of an unknown class", claim(exactly(5, UNKNOWN)), []),
    ("of an unknown count", claim(exactly(UNKNOWN)), []),
    ("of another group", {**claim(exactly(5)), "apiVersion": "example.com/v1"}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in CLAIMS], ids=[r[0] for r in CLAIMS]
)
def test_claims_stay_under_the_cap(manifest: Any, wanted: list[str]) -> None:
    names = frozenset({"a100"})
    for per_container in (4, 9):
        context = known(
            resource_names=names, max_gpus_per_container=per_container, max_gpus_per_pod=4
        )
        assert paths("GPU065", manifest, context) == wanted
    assert paths("GPU065", manifest, known(resource_names=names)) == []


BY_CLASS = "deviceclass.resource.kubernetes.io/"
GPUS_BY_CLASS = {f"{BY_CLASS}gpu.nvidia.com": 64}


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (pod(container(GPUS_BY_CLASS)), ["spec.containers[0].resources"]),
        (pod(container(requests=GPUS_BY_CLASS)), ["spec.containers[0].resources"]),
        (pod(container(dict.fromkeys(GPUS_BY_CLASS, 0))), []),
        (pod(container(requests=dict.fromkeys(GPUS_BY_CLASS, "0"))), []),
        (pod(container({f"{BY_CLASS}mig-1g.nvidia.com": 1})), ["spec.containers[0].resources"]),
        (pod(container(), initContainers=[container(GPUS_BY_CLASS)]),
         ["spec.initContainers[0].resources"]),
        (pod(container({f"{BY_CLASS}nic.example.com": 64})), []),
        (pod(container(), ephemeralContainers=[container(GPUS_BY_CLASS)]), []),
        (pod(container(UNKNOWN)), []),
        (resource("Service"), []),
    ],
)  # fmt: skip
def test_gpus_are_not_asked_for_by_their_class(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU070", manifest, known(max_gpus_per_pod=4)) == wanted
    assert paths("GPU070", manifest, known()) == [], "there is no cap to go past"


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("gpu.nvidia.com", "example.com/accelerator", True),
        ("fast", "example.com/gpu-fast", True),
        ("gpu.nvidia.com", GPU, False),
        ("gpu.nvidia.com", "acme.com/gpu", False),
        ("nic.example.com", "example.com/nic", False),
        ("gpu.nvidia.com", None, False),
        ("gpu.nvidia.com", UNKNOWN, False),
    ],
)
def test_a_class_gives_gpus_under_a_name_that_the_caps_count(
    name: str, given: Any, wanted: bool
) -> None:
    context = known(max_gpus_per_pod=4, resource_names=frozenset({"acme.com/gpu"}))
    spec = {"selectors": []} | ({} if given is None else {"extendedResourceName": given})
    made = resource("DeviceClass", "resource.k8s.io/v1", name=name, spec=spec)
    assert paths("GPU071", made, context) == ["spec.extendedResourceName"] * wanted
    assert paths("GPU071", {**made, "apiVersion": "example.com/v1"}, context) == []
    assert paths("GPU071", made, known()) == [], "there is no cap to go past"


@pytest.mark.parametrize(
    ("manifest", "per_container", "per_pod", "wanted"),
    [r[1:] for r in CAPS],
    ids=[r[0] for r in CAPS],
)
def test_caps(
    manifest: Any, per_container: int | None, per_pod: int | None, wanted: list[str]
) -> None:
    context = known(max_gpus_per_container=per_container, max_gpus_per_pod=per_pod)
    assert paths("GPU028", manifest, context) == wanted


def update(
    replicas: Any = None,
    surge: Any = None,
    unavailable: Any = None,
    kind: Any = None,
    each: int = 1,
) -> Any:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": kind, "rollingUpdate": {k: v for k, v in rolling.items() if v is not None}}
    fields = {
        "replicas": replicas,
        "strategy": {k: v for k, v in strategy.items() if v not in (None, {})},
    }
    return workload("Deployment", gpus(each), **{k: v for k, v in fields.items() if v is not None})


# The pools have 16 GPUs. Columns: whether the update needs more than those, and whether it needs
# spare GPUs.
UPDATES: list[tuple[str, Any, bool, bool]] = [
    ("defaults, one pod", update(), False, True),
    ("all GPUs, defaults", update(2, each=8), True, True),
    ("all GPUs, three pods", update(3, each=5), True, True),
    ("all GPUs, four pods: a quarter ends first", update(4, each=4), False, False),
    ("all GPUs by number", update(16, 1, 0), True, True),
    ("all GPUs, none more", update(16, 0, 1), False, False),
    ("all GPUs, recreated", update(2, kind="Recreate", each=8), False, False),
    ("named as it is by default", update(2, kind="RollingUpdate", each=8), True, True),
    ("named by an empty text", update(2, kind="", each=8), True, True),
    ("an unknown kind", update(2, kind=UNKNOWN, each=8), False, False),
    ("an unknown surge", update(16, UNKNOWN, 0), False, False),
    ("an unknown number that may end", update(16, 1, UNKNOWN), False, False),
    ("an unknown number", update(UNKNOWN, 1, 0), False, False),
    ("floats, as the engine gives them", update(16.0, 1.0, 0.0), True, True),
    ("a quarter of one is rounded up", update(1, "25%", "0%", each=8), False, True),
    ("more than twice of one is rounded up", update(1, "101%", 0, each=6), True, True),
    ("room for one more", update(15, 1, 0), False, True),
    ("half of three is rounded up", update(3, "50%", 0, each=4), True, True),
    ("a third of three is rounded down", update(3, 1, "34%", each=5), False, False),
    ("both nothing is one less", update(16, 0, 0), False, False),
    ("more than there is at rest", update(17, 1, 0), False, True),
    ("no pods", update(0, 1, 0), False, False),
    ("not a number", update("2", 1, 0, each=8), False, False),
    ("not a percentage", update(16, "one", 0), False, False),
    ("a negative one", update(16, -1, 0), False, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "hangs", "spare"), [r[1:] for r in UPDATES], ids=[r[0] for r in UPDATES]
)
def test_updates(manifest: Any, hangs: bool, spare: bool) -> None:
    assert paths("GPU039", manifest) == (["spec.strategy"] if hangs else [])
    assert paths("GPU026", manifest) == [], "GPU039 knows the room"
    assert paths("GPU026", manifest, Context()) == (["spec.strategy"] if spare else [])


def test_an_update_of_another_kind_or_without_gpus_is_nobodys_concern() -> None:
    stateful = workload("StatefulSet", gpus(8), replicas=2)
    assert paths("GPU039", stateful) == paths("GPU026", stateful, Context()) == []
    plain = workload("Deployment", container(), replicas=2)
    assert paths("GPU026", plain, Context()) == []


def test_room_is_unknown_where_a_pool_does_not_tell_its_size() -> None:
    context = Context(pools=(POOL, replace(POOL, nodes=None)))
    assert paths("GPU039", update(2, each=8), context) == []


def test_room_is_that_of_the_pools_that_the_pod_can_go_to() -> None:
    context = Context(pools=(POOL, replace(POOL, name="b", labels={"gpu": "t4"})))
    manifest = update(2, each=8)
    assert paths("GPU039", manifest, context) == []
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "t4"}
    assert paths("GPU039", manifest, context) == ["spec.strategy"]


def test_without_a_pool_to_go_to_there_is_no_room_to_tell() -> None:
    elsewhere = update(0, 1, 0)
    elsewhere["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "t4"}
    assert paths("GPU039", elsewhere) == []
    assert stack_ids(pod(gpus()), context=Context(pools=(PoolFacts("cpu", 0, nodes=2),))) == []


def test_an_update_by_nothing_is_one_by_one() -> None:
    assert fenceposts(Subject.of(update(16, 0, 0))) == Fenceposts(16, 0, 1)


COUNTS: list[tuple[str, Any, int]] = [
    ("a pod", pod(gpus(1)), 1),
    ("a Deployment", workload("Deployment", gpus(2), replicas=3), 6),
    ("one by default", workload("Deployment", gpus(2)), 2),
    ("a ReplicaSet", workload("ReplicaSet", gpus(1), replicas=3.0), 3),
    ("a StatefulSet", workload("StatefulSet", gpus(1), replicas=3), 3),
    ("a ReplicationController", workload("ReplicationController", gpus(1), replicas=3), 3),
    ("an unknown number", workload("Deployment", gpus(2), replicas=UNKNOWN), 0),
    ("a Job", workload("Job", gpus(1)), 1),
    ("a parallel Job", workload("Job", gpus(1), parallelism=4), 4),
    ("a Job with fewer to do", workload("Job", gpus(1), parallelism=4, completions=2), 2),
    ("a Job of unknown width", workload("Job", gpus(1), parallelism=UNKNOWN), 0),
    ("a CronJob", workload("CronJob", gpus(1)), 0),
    ("a DaemonSet", workload("DaemonSet", gpus(1)), 0),
    ("a template", resource("PodTemplate", template={"spec": {"containers": [gpus(1)]}}), 0),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "count"), [r[1:] for r in COUNTS], ids=[r[0] for r in COUNTS])
def test_what_a_stack_asks_for(manifest: Any, count: int) -> None:
    filler = workload("Deployment", gpus(1), replicas=17 - count, name="filler")
    assert stack_ids(manifest, filler) == ["GPU040 Deployment filler"]
    filler = workload("Deployment", gpus(1), replicas=16 - count, name="filler")
    assert stack_ids(manifest, filler) == []


def test_a_stack_that_is_too_large_is_told_once_with_the_sum() -> None:
    parts = [workload("Deployment", gpus(6), name=f"d{index}") for index in range(4)]
    (violation,) = judge_stack(parts, CONTEXT)
    assert (violation.path, violation.found) == (
        "spec.template.spec",
        f"18 {GPU} in the stack, including this workload",
    )
    assert violation.wanted == "at most 16, the total of its pools"


def test_a_full_stack_takes_no_more_whatever_is_declared_before() -> None:
    parts = [resource("Secret"), workload("Job", gpus(8), parallelism=2)]
    assert stack_ids(*parts) == []
    assert stack_ids(*parts, pod(gpus(1))) == ["GPU040 Pod train"]


def test_each_resource_is_summed_by_itself() -> None:
    assert stack_ids(pod(gpus(16)), pod(container({CORE: 1600}))) == []
    assert stack_ids(pod(gpus(16)), pod(container({CORE: 1700}))) == ["GPU040 Pod train"]


BLOCKS: list[tuple[str, dict[str, Any], int | None, bool]] = [
    ("all of it", {CORE: 50, MEMORY: 160}, 40960, True),
    ("one block more", {CORE: 50, MEMORY: 161}, 40960, False),
    ("a broken block does not count", {CORE: 50, MEMORY: 160}, 40959, False),
    ("whole GPUs ignore memory", {CORE: 100, MEMORY: 500}, 40960, True),
    ("no cores", {CORE: 0, MEMORY: 500}, 40960, True),
    ("unknown memory of the device", {CORE: 50, MEMORY: 500}, None, True),
    ("unknown request", {CORE: 50, MEMORY: UNKNOWN}, 40960, True),
    ("unknown cores", {CORE: UNKNOWN, MEMORY: 500}, 40960, True),
    ("memory alone", {MEMORY: 500}, 40960, True),
    ("99 of 100", {CORE: 99, MEMORY: 161}, 40960, False),
    ("1 of 100", {CORE: 1, MEMORY: 161}, 40960, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "device", "fits"), [r[1:] for r in BLOCKS], ids=[r[0] for r in BLOCKS]
)
def test_memory_of_a_part(limits: dict[str, Any], device: int | None, fits: bool) -> None:
    context = replace(CONTEXT, pools=(replace(POOL, gpu_memory_mib=device),))
    result = paths("GPU046", pod(container(limits)), context)
    assert result == ([] if fits else [f"spec.containers[0].resources.limits[{MEMORY}]"])


def test_memory_of_a_part_behind_a_container_without_parts() -> None:
    context = replace(CONTEXT, pools=(replace(POOL, gpu_memory_mib=40960),))
    manifest = pod(gpus(), container({CORE: 50, MEMORY: 161}))
    wanted = [f"spec.containers[1].resources.limits[{MEMORY}]"]
    assert paths("GPU046", manifest, context) == wanted


def test_one_pool_of_unknown_memory_leaves_the_answer_open() -> None:
    manifest = pod(container({CORE: 50, MEMORY: 500}))
    pools = (replace(POOL, gpu_memory_mib=256), POOL)
    assert paths("GPU046", manifest, replace(CONTEXT, pools=pools)) == []
    pools = (replace(POOL, gpu_memory_mib=256), replace(POOL, gpu_memory_mib=512 * 256))
    assert paths("GPU046", manifest, replace(CONTEXT, pools=pools)) == []
