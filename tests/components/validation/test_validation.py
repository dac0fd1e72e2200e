"""Unit tests of GPU validation: proofs, how long they hold, and effects on workloads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_cluster.commands.up import summary_of
from gpu_cluster.commands.validate import chosen
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.inspection.judgement import _validation_after_reboots
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import gpu_holders, record
from gpu_cluster.nodes.inspect import shortfall
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.pool import gpu_pools
from gpu_cluster.validation import container_result, waiting
from gpu_cluster.validation.difference import ValidationDifference
from gpu_cluster.validation.job import ObservedJob, job, job_name, observed
from gpu_cluster.validation.node_result import of_node
from gpu_cluster.validation.pod import pod_template
from gpu_rules.declared import judge as judge_declared
from gpu_rules.faults import FaultError
from gpu_rules.kube.gpu_resources import HAMI_CORES, HAMI_MEMORY
from tests.findings import found
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CORE = "tencent.com/vcuda-core"
UUIDS = [f"GPU-{index:08d}-0000-4000-8000-000000000000" for index in range(8)]


def listing(*uuids: str) -> str:
    return "\n".join(f"GPU {i}: NVIDIA H100 (UUID: {uuid})" for i, uuid in enumerate(uuids))


def status(code: int = 0, name: str = "gpu-0") -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def cluster(**changes: Any) -> Cluster:
    return load(stack_document(**changes))


def document(**changes: Any) -> PoolValidation:
    return documented(cluster(**changes))


def documented(given: Cluster) -> PoolValidation:
    return resolve(given, "test").validation.pools[0]


def test_a_request_names_its_stack_for_the_command_that_validates_again() -> None:
    pool = {"name": "a100-x", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}
    given = cluster(pools=[{**pool, "unhealthyDevices": {"gpu-2": {"index": [0]}}}])
    pools = resolve(given, "team-a").validation.pools
    assert [(each.pool, each.stack) for each in pools] == [
        ("a100-x", "team-a"),
        ("a100-x-x7", "team-a"),
    ]


def node(name: str = "gpu-1", allocatable: int = 8, **parts: Any) -> Json:
    capacity = parts.get("capacity", allocatable)
    status = {"allocatable": {GPU: str(allocatable)}, "capacity": {GPU: str(capacity)}}
    info = {"bootID": parts.get("boot", "b1"), "kernelVersion": "6.8"}
    return {
        "metadata": {
            "name": name,
            "labels": parts.get("labels", {}),
            "annotations": parts.get("annotations", {}),
        },
        "status": {**status, "nodeInfo": info},
    }


def test_one_container_counts_one_device_by_its_uuid() -> None:
    result = container_result.read_result(status(), f"{listing(UUIDS[0])}\nTest PASSED\nDone")
    assert (result.uuid, result.problem, result.simulated) == (UUIDS[0], "", False)


def test_an_instance_counts_by_its_own_uuid() -> None:
    log = f"{listing(UUIDS[0])}\n  MIG 1g.10gb     Device  0: (UUID: MIG-0000-1111)\nTest PASSED"
    result = container_result.read_result(status(), log)
    assert (result.gpu, result.uuid, result.problem) == (UUIDS[0], "MIG-0000-1111", "")


@pytest.mark.parametrize(
    ("code", "log", "part"),
    [
        (0, f"{listing(*UUIDS)}\nTest PASSED", "its container sees 8 devices; wanted: 1"),
        (0, "Test PASSED", "`nvidia-smi -L` shows no device"),
        (0, f"{listing(UUIDS[0])}\nnot Test PASSED at all", "has no line 'Test PASSED'"),
        (3, f"{listing(UUIDS[0])}\nTest PASSED", "exit code 3"),
        (0, "", "no output"),
        (1, f"{listing(UUIDS[0])}\n\x1b[2Jgone", "\\x1b[2Jgone"),
    ],
)
def test_a_device_counts_only_where_a_kernel_ran_on_it_alone(
    code: int, log: str, part: str
) -> None:
    assert part in container_result.read_result(status(code), log).problem


def test_a_simulated_log_is_never_a_computed_gpu() -> None:
    log = f"[simulated: no GPU ran this]\n{listing(UUIDS[0])}\nTest PASSED"
    assert container_result.read_result(status(), log).simulated
    kept = record.ValidationRecord(devices={UUIDS[0]: []}, simulated=True, since="now")
    annotated = node(annotations={record.RECORD: record.encode(kept)})
    result = of_node(document(), annotated)
    assert (result["computed"], result["simulated"], result["deferred"]) == (0, 1, 7)


def test_one_device_given_twice_is_the_plugins_fault_and_named() -> None:
    log = f"{listing(UUIDS[0])}\nTest PASSED"
    results = [container_result.read_result(status(name=name), log) for name in ("gpu-0", "gpu-3")]
    assert "gave it to 2 containers (gpu-0, gpu-3)" in container_result.twice(results)
    assert container_result.twice(results[:1]) == ""


def test_an_injected_sidecar_neither_counts_nor_keeps_the_pod_from_ending() -> None:
    sidecar = {"name": "istio-proxy", "state": {"running": {}}}
    spec = {"containers": [{"name": "gpu-0"}, {"name": "istio-proxy"}], "nodeName": "n"}
    running = {"phase": "Running", "containerStatuses": [status(), sidecar]}
    assert container_result.has_ended({"spec": spec, "status": running})
    assert waiting.injected({"spec": spec}) == ["istio-proxy"]
    waits = {"phase": "Running", "containerStatuses": [{"name": "gpu-0", "state": {}}, sidecar]}
    assert not container_result.has_ended({"spec": spec, "status": waits})
    assert "istio-proxy" in waiting.reason({"spec": spec, "status": waits})


def test_a_refused_admission_is_told_with_the_kubelets_message() -> None:
    status_given = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed",
    }
    text = container_result.refusal({"spec": {"containers": []}, "status": status_given})
    assert text == "its validation pod ended as UnexpectedAdmissionError: Allocate failed"


@pytest.mark.parametrize(
    ("spec", "found", "part"),
    [
        (
            {},
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/4 free"}]},
            "not scheduled: 0/4 free",
        ),
        (
            {"nodeName": "n"},
            {
                "containerStatuses": [
                    {"name": name, "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}
                    for name in ("gpu-0", "gpu-1")
                ]
            },
            "ErrImagePull: x",
        ),
        ({"nodeName": "n"}, {}, "have not ended yet"),
    ],
)
def test_a_pod_that_waits_says_for_what(spec: Json, found: Json, part: str) -> None:
    item = {"spec": {"containers": [{"name": "gpu-0"}], **spec}, "status": found}
    assert waiting.reason(item).endswith(part)


def test_a_validation_holds_until_a_fact_changes_and_says_which() -> None:
    wanted = document()
    before = record.facts(node(), wanted, [])
    kept = record.ValidationRecord(facts=before, devices={UUIDS[0]: []})
    assert record.changes(kept, before) == ()
    assert record.changes(kept, record.facts(node(boot="b2"), wanted, [])) == (
        ("boot", "b1", "b2"),
    )
    late = node(labels={"nvidia.com/gpu.product": "H100"})
    # A label that appears later is not a change.
    assert record.changes(kept, record.facts(late, wanted, [])) == ()
    upgraded = document(devicePlugin={"version": "0.19.2"})
    ((fact, _, _),) = record.changes(kept, record.facts(node(), upgraded, []))
    assert fact == "settings.devicePlugin"


def test_a_daemon_set_counts_by_what_it_runs_where_it_runs() -> None:
    wanted = document()

    def daemon_set(image: str, **pod_parts: Any) -> Json:
        spec = {"containers": [{"name": "c", "image": image}], **pod_parts}
        meta = {"name": "plugin", "namespace": wanted.spaces[0]}
        return {"metadata": meta, "spec": {"template": {"spec": spec}}}

    def facts_with(daemon_set: Json) -> dict[str, str]:
        return record.facts(node(), wanted, [daemon_set])

    kept = record.ValidationRecord(facts=facts_with(daemon_set("a")))
    assert record.changes(kept, facts_with(daemon_set("a", tolerations=[{"key": "x"}]))) == ()
    ((fact, _, _),) = record.changes(kept, facts_with(daemon_set("b")))
    assert fact == "DaemonSet plugin"
    elsewhere = daemon_set("b", nodeSelector={"pool": "other"})
    assert record.changes(kept, facts_with(elsewhere)) == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"facts": []}', '{"devices": {"a": 1}}', '{"other": 1}', "x" * 40_000, "1"],
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert record.decode(node(annotations={record.RECORD: text})) is None


def test_a_record_is_read_as_it_was_written() -> None:
    kept = record.ValidationRecord({"boot": "b"}, {UUIDS[0]: ["MIG-1"]}, "now", 3, "h", True, "m")
    assert record.decode(node(annotations={record.RECORD: record.encode(kept)})) == kept


def test_a_gpu_counts_with_all_of_its_instances_only() -> None:
    kept = record.ValidationRecord(devices={"a": ["1", "2"], "b": ["3"]})
    assert (kept.count, kept.gpus(2)) == (3, 1)


def holder(name: str, amount: int, phase: str = "Running", **meta: Any) -> Json:
    limits = {"limits": {GPU: str(amount)}}
    return {
        "metadata": {"namespace": "ai", "name": name, "uid": name, **meta},
        "spec": {"containers": [{"name": "c", "resources": limits}]},
        "status": {"phase": phase},
    }


def test_free_is_what_no_living_pod_of_others_holds() -> None:
    ours = holder("validate-gpu-1", 8, labels={"gpu-cluster/validation": "a100"})
    pods = [holder("train", 3), holder("done", 4, "Succeeded"), holder("plain", 0), ours]
    holders = gpu_holders.holders_of(pods, [GPU])
    assert gpu_holders.free(node(), document().offers, holders) == {GPU: 5}
    assert gpu_holders.named(holders) == (
        "ai/done (Succeeded, holds none any more), ai/train (Running, holds 3)"
    )
    ending = holder("train", 3, deletionTimestamp="now")
    assert str(gpu_holders.holders_of([ending], [GPU])[0]) == "ai/train (being deleted, holds 3)"


def test_the_same_holders_give_the_same_digest_and_none_gives_none() -> None:
    first, second = (gpu_holders.holders_of([holder(name, 1)], [GPU]) for name in ("a", "b"))
    assert gpu_holders.digest(first) == gpu_holders.digest(first) != gpu_holders.digest(second)
    assert gpu_holders.digest(gpu_holders.holders_of([holder("a", 1, "Failed")], [GPU])) == ""


class Walked(dict[str, Any]):
    """ResourceClaim of one GPU on one node, which counts how often its devices are read."""

    def __init__(self, number: int) -> None:
        result = {"driver": "gpu.nvidia.com", "pool": f"gpu-{number}", "device": "gpu-0"}
        super().__init__(
            metadata={"namespace": "ai", "name": f"c{number}", "uid": "u"},
            status={"allocation": {"devices": {"results": [result]}}},
        )
        self.walks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.walks += key == "status"
        return super().get(key, default)


def test_claims_of_others_hold_devices() -> None:
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}
    claim = {
        "metadata": {"namespace": "ai", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": [result, {**result, "pool": "gpu-2"}]}}},
    }
    (holder,) = gpu_holders.holders_of_claims([claim], "gpu-validation")["gpu-1"]
    assert holder.amounts == {"gpu.nvidia.com": 1}
    assert gpu_holders.holders_of_claims([claim], "ai") == {}


def test_claims_are_walked_once_for_all_nodes() -> None:
    """Each claim was walked once for each node: a million steps with a thousand of both."""
    claims, nodes = [Walked(number) for number in range(30)], [f"gpu-{n}" for n in range(30)]
    by_node = gpu_holders.holders_of_claims([*claims], "gpu-validation")
    assert sorted(by_node) == sorted(nodes)
    assert [claim.walks for claim in claims] == [1] * 30


def test_a_claim_that_only_monitors_a_gpu_holds_none() -> None:
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0", "adminAccess": True}
    claim = {
        "metadata": {"namespace": "monitoring", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    assert gpu_holders.holders_of_claims([claim], "gpu-validation") == {}


def test_each_device_has_a_container_that_asks_for_one() -> None:
    given = document()
    made = pod_template(given, "gpu-1", {GPU: 8})
    containers = made["spec"]["containers"]
    assert [container["name"] for container in containers] == [f"gpu-{index}" for index in range(8)]
    assert all(container["resources"]["limits"][GPU] == "1" for container in containers)
    assert "initContainers" not in made["spec"]
    cards = document(platform="gpu-manager")
    made = pod_template(cards, "gpu-1", {"tencent.com/vcuda-core": 8})
    limits = [container["resources"]["limits"] for container in made["spec"]["containers"]]
    assert [limit["tencent.com/vcuda-core"] for limit in limits] == ["50"] + ["100"] * 7
    claims = document(platform="dra")
    made = pod_template(claims, "gpu-1", {"gpu.nvidia.com": 8})
    assert len(made["spec"]["resourceClaims"]) == 8
    names = [
        container["resources"]["claims"][0]["name"] for container in made["spec"]["containers"]
    ]
    assert names == [resource_claim["name"] for resource_claim in made["spec"]["resourceClaims"]]


@pytest.mark.promise("With gpu-manager, each validation computes on a share of a card, too.")
def test_one_container_computes_on_a_share_and_its_failure_says_so() -> None:
    cards = document(platform="gpu-manager")
    for number in (1, 3):
        containers = pod_template(cards, "gpu-1", {CORE: number})["spec"]["containers"]
        names = [f"gpu-{index}" for index in range(1, number)]
        assert [each["name"] for each in containers] == ["gpu-0-share", *names]
        asked = containers[0]["resources"]["limits"]
        assert (asked[CORE], asked["tencent.com/vcuda-memory"]) == ("50", "8")
        assert not any("vcuda-memory" in str(each["resources"]) for each in containers[1:])
    assert pod_template(cards, "gpu-1", {CORE: 0})["spec"]["containers"] == []
    ended = [status(1, name="gpu-0-share"), status(name="gpu-1")]
    pod: Json = {
        "spec": {"containers": [{"name": each["name"]} for each in ended]},
        "status": {"containerStatuses": ended},
    }
    assert container_result.has_ended(pod)
    log = f"{listing(UUIDS[0])}\nFailed to allocate"
    results = [container_result.read_result(each, log) for each in ended[:1]]
    assert container_result.failures(results) == (
        f"{UUIDS[0]}: on a share of it: exit code 1; its last line: Failed to allocate"
    )


@pytest.mark.promise("With HAMi, each validation computes on a share of each card.")
def test_with_hami_each_container_computes_on_a_share_of_a_card_of_its_own() -> None:
    made = pod_template(document(platform="hami"), "gpu-1", {GPU: 3})
    assert [each["name"] for each in made["spec"]["containers"]] == [
        f"gpu-{index}-share" for index in range(3)
    ]
    for container in made["spec"]["containers"]:
        limits = container["resources"]["limits"]
        share = {name: limits[name] for name in (GPU, HAMI_MEMORY, HAMI_CORES)}
        assert share == {GPU: "1", HAMI_MEMORY: "2048", HAMI_CORES: "10"}
    # With this policy HAMi assigns the least used card to each next container.
    assert made["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] == "spread"


def test_our_own_pods_keep_every_rule_advice_included() -> None:
    for platform in ("device-plugin", "gpu-operator", "gpu-manager", "hami", "dra"):
        given = cluster(platform=platform)
        made = documented(given)
        ask = {offer.resource: offer.devices for offer in made.offers}
        item = job(made, owner(), ask)
        item["metadata"]["namespace"] = made.namespace
        violations = judge_declared("kubernetes:batch/v1:Job", item, resolve(given, "dev").rules)
        assert [violation.message for violation in violations] == []


def owner(name: str = "gpu-1") -> Json:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}


def test_a_jobs_name_fits_a_label_and_tells_nodes_apart() -> None:
    assert job_name("gpu-1") == "validate-gpu-1"
    long = [".".join(["a" * 62] * 3 + [end]) for end in ("b", "c")] + ["n" * 36 + ".-" + "x" * 40]
    names = [job_name(name) for name in long]
    assert len(set(names)) == 3
    label = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
    assert all(len(name) <= 63 and label.fullmatch(name) for name in names)


@pytest.mark.promise(
    "A validation is a Job that ends by its deadline and is then deleted, whatever ends the run."
)
def test_a_validation_job_ends_and_goes_without_the_program() -> None:
    given = document(validation={"timeoutSeconds": 30})
    made = job(given, owner(), {GPU: 8})
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    spec = made["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 150)
    assert spec["ttlSecondsAfterFinished"] == 3600
    assert spec["template"] == pod_template(given, "gpu-1", {GPU: 8})
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "gpu-1", "uid": "uid-gpu-1"}
    ]


def owned(uid: str, by: str, **parts: Any) -> Json:
    owners = [{"kind": "Job", "uid": by, "controller": True}]
    meta = {"name": uid, "uid": uid, "ownerReferences": owners, **parts}
    return {"metadata": meta, "status": {}}


def test_a_pod_is_a_jobs_by_its_owner_and_living_until_it_is_disrupted() -> None:
    jobs = [{"metadata": {"name": f"validate-gpu-{n}", "uid": f"job-{n}"}} for n in (1, 2)]
    evicted = owned("evicted", "job-1")
    evicted["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    pods = [
        owned("running", "job-1"),
        owned("deleted", "job-1", deletionTimestamp="now"),
        evicted,
        owned("validate-gpu-2", "other"),
    ]
    found = observed(jobs, pods, {"job-2": "exceeded quota"})
    assert [pod["metadata"]["uid"] for pod in found["validate-gpu-1"].living] == ["running"]
    assert len(found["validate-gpu-1"].pods) == 3
    assert found["validate-gpu-2"] == ObservedJob(job=jobs[1], refusal="exceeded quota")


def test_a_job_without_a_pod_says_who_keeps_it_from_one() -> None:
    assert "Kueue" in waiting.reason_without_pod({"spec": {"suspend": True}}, "")
    assert waiting.reason_without_pod({"spec": {}}, "exceeded quota") == "exceeded quota"
    assert "kube-controller-manager" in waiting.reason_without_pod({"spec": {}}, "")


def test_annotations_of_the_stack_file_are_on_the_pod() -> None:
    given = document(validation={"podAnnotations": {"sidecar.istio.io/inject": "false"}})
    made = pod_template(given, "gpu-1", {GPU: 8})
    assert made["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"


def test_a_node_counts_only_with_exactly_the_declared_gpus() -> None:
    assert shortfall(node(allocatable=8), 8, {GPU: 8}) == ""
    assert shortfall(node(allocatable=9), 8, {GPU: 8}) == "9 GPUs allocatable, 8 declared"
    assert "1 unhealthy or withdrawn" in shortfall(node(allocatable=7, capacity=8), 8, {GPU: 8})


def test_nodes_to_validate_anew_are_those_of_the_stack() -> None:
    pools = gpu_pools(cluster().pools)
    assert chosen("", pools, ()) == "all"
    assert chosen("gpu-1, gpu-[3-4]", pools, ()) == "gpu-1,gpu-3,gpu-4"
    with pytest.raises(FaultError, match="--nodes: found gpu-9; wanted: nodes of the stack"):
        chosen("gpu-9", pools, ())


def test_the_last_line_says_computed_only_where_a_kernel_ran() -> None:
    real = {"declared": 32, "computed": 32, "simulated": 0, "deferred": 0}
    assert summary_of(real) == "32 of 32 GPUs computed"
    busy = {**real, "computed": 29, "deferred": 3}
    assert summary_of(busy) == "29 of 32 GPUs computed, 3 deferred"
    assert summary_of({**real, "computed": 0, "simulated": 32}) == "32 of 32 GPUs simulated"
    mixed = {**real, "computed": 8, "simulated": 24}
    assert summary_of(mixed) == "24 of 32 GPUs simulated, 8 computed"


def test_a_node_that_a_run_reboots_is_validated_by_the_same_run() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"
    host = {"name": "one", "node": "gpu-1", "address": "192.0.2.1", "hostKey": key}
    desired, none = resolve(cluster(hosts=[host]), "dev"), ValidationDifference()
    booted = _validation_after_reboots(none, desired.validation.pools, desired.hosts, {"one"})
    assert booted.findings == (found("due: node gpu-1: rebooted by this run"),)
    assert _validation_after_reboots(none, desired.validation.pools, desired.hosts, set()) == none
