"""The true cause why a pod does not run, in the words of kubelet, scheduler and controllers.

The messages are those of kubernetes v1.34.4; each case names the file that writes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.nodes.causes.cause import SHOWN, Around, Cause, Kind
from gpu_cluster.nodes.causes.pod import cause_of, cause_of_missing

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def pod(limits: Json | None = None, node: str = "", name: str = "train", **parts: Any) -> Json:
    """Return a pod of the namespace `team`, scheduled if `node` is given."""
    containers = [{"name": "main", "image": "i", "resources": {"limits": limits or {}}}]
    spec = {"containers": containers, **parts.pop("spec", {})}
    if node:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}"}
    return {"metadata": meta | parts.pop("metadata", {}), "spec": spec, "status": parts}


def event(reason: str, message: str, at: str = "2026-01-01T00:00:01Z", **of: str) -> Json:
    involved = {"kind": "Pod", "name": "train", "namespace": "team", "uid": "u-train", **of}
    return {
        "metadata": {"namespace": involved["namespace"]},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": involved,
    }


def node(name: str, gpus: int = 8, resource: str = GPU, **spec: Any) -> Json:
    count = {resource: str(gpus)} if gpus else {}
    labels = spec.pop("labels", {})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": count, "allocatable": count},
    }


def holding(gpus: int, on: str) -> Json:
    return pod({GPU: str(gpus)}, on, name=f"other-{on}", phase="Running")


def nodes(number: int, **given: Any) -> tuple[Json, ...]:
    return tuple(node(f"gpu-{index}", **given) for index in range(1, number + 1))


def unscheduled(message: str) -> list[Json]:
    return [{"type": "PodScheduled", "status": "False", "message": message}]


def waits(reason: str, message: str = "", **more: Any) -> list[Json]:
    state = {"waiting": {"reason": reason, "message": message}}
    return [{"name": "main", "state": state, **more}]


def known(found: Cause | None) -> Cause:
    assert found is not None
    assert str(found).isprintable()
    assert found.text
    assert "\n" not in str(found)
    return found


STARTING = waits("ContainerCreating")
INSUFFICIENT = (
    "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are "
    "available: 4 No preemption victims found for incoming pod."
)
NO_RUNTIME = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox "
    'runtime: no runtime for "nvidia" is configured'
)


@pytest.mark.promise("What keeps a pod from running is read from its events, too.")
@pytest.mark.parametrize(
    ("reason", "message", "kind", "cure"),
    [
        # pkg/kubelet/kuberuntime/kuberuntime_manager.go; containerd v1.7 and CRI-O.
        ("FailedCreatePodSandBox", NO_RUNTIME, Kind.SANDBOX, "runtimeClassName"),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime "
            "handler nvidia from runtime list map[]",
            Kind.SANDBOX,
            "runtimeClassName",
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup "
            'network for sandbox "f00": plugin type="calico" failed (add)',
            Kind.SANDBOX,
            "network plugin",
        ),
        # pkg/kubelet/volumemanager, pkg/volume/secret/secret.go.
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : secret "data" not found',
            Kind.MOUNT,
            "create this object",
        ),
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources "
            "failed: no such device",
            Kind.CLAIM,
            "DRA driver",
        ),
    ],
)
def test_an_event_before_the_start_is_the_cause(
    reason: str, message: str, kind: Kind, cure: str
) -> None:
    scheduled = event("Scheduled", "Successfully assigned team/train to gpu-1")
    given = pod(node="gpu-1", phase="Pending", containerStatuses=STARTING)
    assert cause_of(given, Around(events=(scheduled,))) is None
    events = (scheduled, event(reason, message), event(reason, "of another", uid="u-2"))
    found = known(cause_of(given, Around(events=events, trusted_events=True)))
    assert found.kind is kind
    assert message in found.text
    assert cure in found.cure


@pytest.mark.promise(
    "Words of an event choose a cure only in namespaces that the stack trusts; elsewhere they are "
    "quoted."
)
@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FailedCreatePodSandBox", NO_RUNTIME),
        ("FailedCreatePodSandBox", "Driver/library version mismatch"),
        ("FailedCreatePodSandBox", "could not load NVML: libnvidia-ml.so"),
        ("FailedMount", "appears to already be loaded"),
        ("FailedScheduling", "0/1 nodes are available: 1 node(s) were unschedulable."),
        ("FailedScheduling", "device class x does not exist"),
        ("FailedCreate", 'violates PodSecurity "baseline:latest"'),
        ("FailedCreate", 'failed calling webhook "validate.kyverno.svc-fail"'),
        ("FailedCreate", "exceeded quota: gpus"),
    ],
)
def test_the_words_of_an_event_that_a_tenant_may_have_written_choose_no_cure(
    reason: str, message: str
) -> None:
    def explained(text: str) -> Cause:
        around = Around(events=(event(reason, text),))
        if reason == "FailedCreate":
            known_jobs = replace(around, controllers=(controller("Job", "train"),))
            return known(cause_of_missing("train", known_jobs))
        node = "" if reason == "FailedScheduling" else "gpu-1"
        return known(cause_of(pod(node=node, phase="Pending"), around))

    chosen = explained(message)
    assert f"reported by a component without a name: “{message}”" in chosen.text
    assert chosen.cure == explained("words that are not known").cure


@pytest.mark.promise("A tenant's pod is not named as the device plugin, whatever its image.")
def test_a_pod_of_a_tenant_is_not_named_as_the_device_plugin() -> None:
    forged = pod(node="gpu-1", name="evil", phase="Pending")
    forged["spec"]["containers"][0]["image"] = "evil.example/k8s-device-plugin:v1"
    withdrawn = node("gpu-1")
    withdrawn["status"]["allocatable"] = {GPU: "0"}
    around = Around(nodes=(withdrawn,), pods=(forged,))
    assert "team/evil" in known(cause_of(pod({GPU: "1"}), around)).text
    trusted = replace(around, platform_namespaces=frozenset({"nvidia-device-plugin"}))
    found = known(cause_of(pod({GPU: "1"}), trusted))
    assert "team/evil" not in str(found)
    assert "no pod of a device plugin runs on gpu-1" in found.text


def test_a_sandbox_of_a_runtime_class_names_it_whatever_an_event_says() -> None:
    given = pod(node="gpu-1", phase="Pending", spec={"runtimeClassName": "nvidia"})
    around = Around(events=(event("FailedCreatePodSandBox", "x"),))
    assert known(cause_of(given, around)).cure.endswith("has the runtime of RuntimeClass nvidia")
    trusted = Around(events=(event("FailedCreatePodSandBox", NO_RUNTIME),), trusted_events=True)
    assert "configure this runtime" in known(cause_of(given, trusted)).cure


def test_an_event_from_before_the_start_is_out_of_date_once_a_container_runs() -> None:
    running = [{"name": "main", "ready": True, "state": {"running": {}}}]
    given = pod(node="gpu-1", phase="Running", containerStatuses=running)
    late = event("FailedCreatePodSandBox", NO_RUNTIME)
    assert cause_of(given, Around(events=(late,))) is None


def test_the_newest_event_counts_whichever_clock_its_reporter_uses() -> None:
    old = event("FailedMount", "old", "2026-01-01T00:00:02Z")
    new = event("FailedCreatePodSandBox", "new", "") | {
        "eventTime": "2026-01-01T00:00:01.000000Z",
        "series": {"lastObservedTime": "2026-01-01T00:00:03.000000Z"},
    }
    given = pod(node="gpu-1", containerStatuses=STARTING)
    for events in ((old, new), (new, old)):
        assert known(cause_of(given, Around(events=events))).kind is Kind.SANDBOX


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("8/8 CardInsufficientMemory", "smaller share of fewer GPUs (nvidia.com/gpumem or "),
        ("8/8 CardInsufficientCore", "smaller share of fewer GPUs (nvidia.com/gpucores)"),
        ("8/8 CardTimeSlicingExhausted", "smaller share"),
        ("NodeInsufficientDevice", "as one node has"),
        ("8/8 ResourceQuotaNotFit", "quota"),
        ("8/8 CardUuidMismatch", "annotations"),
        ("2/8 NumaNotFit", "numa-bind"),
        ("8/8 CardMigTopologyInfeasible", "MIG profile"),
        ("node unregistered", "HAMi's device plugin"),
    ],
)
def test_the_words_of_hamis_scheduler_have_a_cure(reason: str, cure: str) -> None:
    message = f"0/4 nodes are available: 4 {reason}."
    given = pod({GPU: "1"}, spec={"schedulerName": "hami-scheduler"})
    given["status"] = {"phase": "Pending", "conditions": unscheduled(message)}
    found = known(cause_of(given, Around(nodes=nodes(4, gpus=80))))
    assert f"reported by hami-scheduler: “{message}”" in found.text
    assert cure in found.cure


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ('failed to pull "nvcr.io/x": 401 Unauthorized', "pull secret"),
        ("manifest unknown: tag not found", "tag"),
        ("dial tcp: lookup nvcr.io: no such host", "mirror"),
        ("x509: certificate signed by unknown authority", "trust"),
        ("strange", "pull secrets"),
    ],
)
def test_an_image_that_cannot_be_pulled_has_the_cure_of_its_message(
    message: str, cure: str
) -> None:
    given = pod(node="gpu-1", containerStatuses=waits("ErrImagePull", message))
    found = known(cause_of(given))
    assert (found.kind, found.text) == (Kind.IMAGE, f"ErrImagePull: {message}")
    assert cure in found.cure


@pytest.mark.parametrize(
    ("reason", "message", "cure"),
    [
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
            "Requested: 1, Available: 0, which is unexpected",
            "restart the kubelet",
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
            "nvidia.com/gpu, which is unexpected",
            "Xid",
        ),
        (
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8",
            "create it again",
        ),
    ],
)
def test_a_refused_admission_names_the_kubelets_reason(
    reason: str, message: str, cure: str
) -> None:
    given = pod({GPU: "1"}, "gpu-1", phase="Failed", reason=reason, message=message)
    found = known(cause_of(given))
    assert found.kind is Kind.ADMISSION
    assert f"{reason}: {message}" in found.text
    assert cure in found.cure


def test_a_crash_loop_shows_the_last_line_of_its_log() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    statuses = waits("CrashLoopBackOff", "back-off 40s", lastState=ended, restartCount=3)
    given = pod(node="gpu-1", phase="Running", containerStatuses=statuses)
    logs = {"main": "starting\nnvml init failed: ERROR_LIBRARY_NOT_FOUND\n\n"}
    found = known(cause_of(given, Around(logs=logs)))
    assert found.kind is Kind.CRASH
    assert found.text == (
        "container main ends again and again (exit code 1, 3 restarts), its last line: nvml init "
        "failed: ERROR_LIBRARY_NOT_FOUND"
    )
    assert "driver" in found.cure
    assert "left no line" in known(cause_of(given)).text


def test_a_termination_message_stands_in_for_a_log_that_may_not_be_read() -> None:
    end = {"exitCode": 3, "reason": "Error", "message": "first\nno device\n"}
    statuses = [{"name": "main", "state": {"terminated": end}}]
    given = pod(node="gpu-1", phase="Failed", containerStatuses=statuses)
    assert known(cause_of(given)).text.endswith("last line: no device")


def test_a_container_that_ran_out_of_memory_needs_a_higher_limit() -> None:
    end = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    found = known(cause_of(given))
    assert "exit code 137, OOMKilled" in found.text
    assert "memory limit" in found.cure


def test_a_line_of_a_log_is_bounded_and_printable() -> None:
    end = {"terminated": {"exitCode": 1}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    found = known(cause_of(given, Around(logs={"main": f"\x1b[31m{'x' * 10_000}"})))
    assert len(found.text) < 2 * SHOWN


def test_an_eviction_names_what_the_node_was_low_on() -> None:
    message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 17348Ki."
    found = known(cause_of(pod(node="n", phase="Failed", reason="Evicted", message=message)))
    assert found.kind is Kind.EVICTION
    assert message in found.text


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("PreemptionByScheduler", Kind.PREEMPTION),
        ("EvictionByEvictionAPI", Kind.EVICTION),
        ("DeletionByTaintManager", Kind.EVICTION),
        ("TerminationByKubelet", Kind.EVICTION),
    ],
)
def test_a_disrupted_pod_says_who_ended_it(reason: str, kind: Kind) -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}
    preempted = event("Preempted", "Preempted by pod 4711 on node gpu-1")
    given = pod(node="n", phase="Failed", conditions=[target])
    found = known(cause_of(given, Around(events=(preempted,))))
    assert found.kind is kind
    assert ("4711" in found.text) is (kind is Kind.PREEMPTION)


def test_a_pod_that_runs_has_succeeded_or_just_starts_has_no_cause() -> None:
    assert cause_of(pod(node="n", phase="Succeeded")) is None
    assert cause_of(pod(node="n", phase="Pending", containerStatuses=STARTING)) is None
    assert cause_of(pod()) is None


def test_free_gpus_on_too_many_nodes_are_a_fragmentation() -> None:
    around = Around(nodes=nodes(4), pods=tuple(holding(4, f"gpu-{index}") for index in range(1, 5)))
    given = pod({GPU: "8"}, conditions=unscheduled(INSUFFICIENT))
    found = known(cause_of(given, around))
    assert found.kind is Kind.FRAGMENTATION
    assert found.text == (
        "not scheduled: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.; needs 8 "
        "nvidia.com/gpu on one node; node gpu-1 has 4 free"
    )
    assert "at most 4" in found.cure


@pytest.mark.promise("Advice of `gpu-cluster why` never rests on a sum over nodes.")
def test_a_request_larger_than_each_node_says_so() -> None:
    found = known(cause_of(pod({GPU: "8"}), Around(nodes=nodes(4, gpus=4))))
    assert found.text == "needs 8 nvidia.com/gpu on one node; no node has more than 4"
    assert found.cure == "request at most 4 per pod and use several pods"
    busy = Around(nodes=nodes(4), pods=(holding(1, "gpu-1"),))
    found = known(cause_of(pod({GPU: "16"}), busy))
    assert "other-gpu-1" not in str(found)
    assert "at most 8" in found.cure


def test_only_the_holders_of_the_node_that_lacks_least_are_named() -> None:
    done = pod({GPU: "8"}, "gpu-1", name="done", phase="Succeeded")
    around = Around(nodes=nodes(2), pods=(holding(8, "gpu-1"), holding(7, "gpu-2"), done))
    found = known(cause_of(pod({GPU: "2"}), around))
    assert (found.kind, found.text) == (
        Kind.SCHEDULING,
        "needs 2 nvidia.com/gpu on one node; node gpu-2 has 1 free",
    )
    assert "wait until 1 more are free on node gpu-2, held there by team/other-gpu-2" in found.cure
    assert "other-gpu-1" not in found.cure
    assert "done" not in found.cure


def test_a_wrong_resource_name_is_corrected() -> None:
    found = known(cause_of(pod({"nvidia.com/gpus": "1"}), Around(nodes=nodes(2))))
    assert found.kind is Kind.RESOURCE_NAME
    assert found.text == "no node offers nvidia.com/gpus; nodes offer nvidia.com/gpu"
    assert found.cure == "correct the name to nvidia.com/gpu"
    without = known(cause_of(pod({GPU: "1"}), Around(nodes=nodes(2, gpus=0))))
    assert "device plugin" in without.cure


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"taints": [TAINT]}, Kind.TAINT, "nvidia.com/gpu=present:NoSchedule"),
        ({"unschedulable": True}, Kind.CORDON, "cordoned"),
        (
            {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            Kind.TAINT,
            "not ready",
        ),
        ({"labels": {"gpu": "t4"}}, Kind.AFFINITY, "selector"),
    ],
)
def test_nodes_with_gpus_that_take_no_such_pod_say_why(given: Json, kind: Kind, text: str) -> None:
    around = Around(nodes=(*nodes(2, **given), node("cpu-1", gpus=0)))
    asking = pod({GPU: "1"}, spec={"nodeSelector": {"gpu": "a100"}} if "labels" in given else {})
    found = known(cause_of(asking, around))
    assert found.kind is kind
    assert text in found.text
    assert "none of 2 nodes with nvidia.com/gpu takes the pod: each" in found.text


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["a100", "h100"], True),
        ("In", ["t4"], False),
        ("NotIn", ["t4"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["1"], False),
    ],
)
def test_a_required_node_affinity_is_judged_as_the_scheduler_does(
    operator: str, values: list[str], fits: bool
) -> None:
    expression = {"key": "gpu", "operator": operator, "values": values}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    given = pod({GPU: "1"}, spec={"affinity": {"nodeAffinity": required}})
    found = cause_of(given, Around(nodes=nodes(1, labels={"gpu": "a100"})))
    assert (found is None) is fits
    assert found is None or found.kind is Kind.AFFINITY


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("0/2 nodes are available: 2 Insufficient cpu.", Kind.SCHEDULING),
        (INSUFFICIENT, Kind.SCHEDULING),
        ("0/2 nodes are available: 2 node(s) had untolerated taint(s).", Kind.TAINT),
        ("0/2 nodes are available: 2 node(s) had untolerated taint {a: b}.", Kind.TAINT),
        (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            Kind.AFFINITY,
        ),
        ("0/2 nodes are available: 2 node(s) were unschedulable.", Kind.CORDON),
        ('0/2 nodes are available: persistentvolumeclaim "d" not found.', Kind.MOUNT),
    ],
)
def test_without_the_nodes_the_schedulers_words_are_the_cause(message: str, kind: Kind) -> None:
    found = known(cause_of(pod({GPU: "1"}, conditions=unscheduled(message))))
    assert found.kind is kind
    assert found.text.startswith("not scheduled: 0/")
    assert "preemption" not in found.text
    events = (event("FailedScheduling", message),)
    by_event = known(cause_of(pod(), Around(events=events, trusted_events=True)))
    assert by_event.text == found.text


def test_what_a_node_with_free_gpus_lacks_is_said_by_the_scheduler() -> None:
    message = "0/2 nodes are available: 2 Insufficient cpu."
    given = pod({GPU: "1"}, conditions=unscheduled(message))
    assert "Insufficient cpu" in known(cause_of(given, Around(nodes=nodes(2)))).text


@pytest.mark.parametrize(
    "message",
    [
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        "0/1 nodes are available: request gpu: device class gpu.nvidia.con does not exist.",
    ],
)
def test_a_claim_that_is_not_allocated_is_named(message: str) -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    given = pod(spec=spec, conditions=unscheduled(message))
    found = known(cause_of(given, Around(nodes=nodes(1, gpus=0))))
    assert found.kind is Kind.CLAIM
    assert found.text.startswith("not scheduled: 0/1")
    assert found.text.endswith("; claim gpu not allocated")
    assert "preemption" not in found.text


def test_devices_that_the_driver_tainted_are_named_for_a_claim() -> None:
    def devices(generation: int, *devices: Json) -> Json:
        pool = {"name": "gpu-1", "generation": generation}
        return {"spec": {"driver": "gpu.nvidia.com", "pool": pool, "devices": list(devices)}}

    lost = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    noted = {"key": "gpu.nvidia.com/unmonitored", "effect": "None"}
    slices = (
        devices(1, {"name": "gpu-1", "taints": [lost]}),
        devices(2, {"name": "gpu-0", "taints": [lost]}, {"name": "gpu-1", "taints": [noted]}),
    )
    message = "0/1 nodes are available: 1 cannot allocate all claims."
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    given = pod(spec=spec, conditions=unscheduled(message))
    found = known(cause_of(given, Around(nodes=nodes(1, gpus=0), slices=slices)))
    assert found.text.endswith("1 devices are tainted: gpu-0 of gpu-1 (gpu.nvidia.com/xid=79)")
    assert "Xid" in found.cure


def test_a_claim_without_its_template_is_named() -> None:
    # pkg/controller/resourceclaim/controller.go
    said = event(
        "FailedResourceClaimCreation",
        'PodResourceClaim gpu: resourceclaimtemplate "one" not found',
    )
    given = pod(spec={"resourceClaims": [{"name": "gpu"}]})
    found = known(cause_of(given, Around(events=(said,))))
    assert found.kind is Kind.CLAIM
    assert 'resourceclaimtemplate "one" not found' in found.text


def test_gates_finalizers_and_probes_are_named() -> None:
    gated = known(cause_of(pod(spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})))
    assert (gated.kind, "kueue" in gated.text) == (Kind.GATE, True)
    going = {"deletionTimestamp": "t", "finalizers": ["a/b"]}
    ending = known(cause_of(pod(node="n", metadata=going)))
    assert (ending.kind, "a/b" in ending.text) == (Kind.DELETION, True)
    running = [{"name": "main", "ready": False, "state": {"running": {}}}]
    probed = Around(events=(event("Unhealthy", "Readiness probe failed: refused"),))
    unready = known(cause_of(pod(node="n", containerStatuses=running), probed))
    assert (unready.kind, "Readiness" in unready.text) == (Kind.PROBE, True)


def test_a_pod_that_ran_out_of_its_time_says_so() -> None:
    message = "Pod was active on the node longer than the specified deadline"
    ended = pod(node="gpu-1", phase="Failed", reason="DeadlineExceeded", message=message)
    found = known(cause_of(ended))
    assert found.kind is Kind.DEADLINE
    assert message in found.text
    assert "activeDeadlineSeconds" in found.cure


KILLED = event("Killing", "Container main failed liveness probe, will be restarted")
UNHEALTHY = event("Unhealthy", "Liveness probe failed: no answer")


@pytest.mark.parametrize("code", [0, 137])
def test_a_container_that_a_probe_ends_again_and_again_names_the_probe(code: int) -> None:
    """A kubelet ends such a container; its exit code and its log don't say why."""
    end = {"terminated": {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z"}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    found = known(cause_of(given, Around(events=(KILLED, UNHEALTHY))))
    assert (found.kind, "no answer" in found.text) == (Kind.PROBE, True)


def started(at: str, container: str = "main") -> Json:
    part = f"spec.containers{{{container}}}"
    return event("Started", "Container started", f"2026-01-01T00:00:{at}Z", fieldPath=part)


def test_a_probe_that_ended_an_earlier_run_of_a_container_is_out_of_date() -> None:
    end = {"terminated": {"exitCode": 3, "startedAt": "2026-01-01T00:00:02Z"}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    around = Around(events=(KILLED, UNHEALTHY, started("02")))
    assert known(cause_of(given, around)).kind is Kind.CRASH


@pytest.mark.parametrize("other", [(), (started("02", "other"),)], ids=["alone", "beside another"])
def test_a_probe_is_named_after_a_kubelet_stopped_reporting_events(other: tuple[Json, ...]) -> None:
    """A kubelet reports 25 events of a pod, then one in five minutes."""
    end = {"terminated": {"exitCode": 137, "startedAt": "2026-01-01T00:00:02Z"}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    found = known(cause_of(given, Around(events=(KILLED, UNHEALTHY, started("00"), *other))))
    assert (found.kind, "no answer" in found.text) == (Kind.PROBE, True)


def test_the_failure_of_the_probe_that_ended_a_container_is_named_not_another_probe_s() -> None:
    end = {"terminated": {"exitCode": 137, "startedAt": "2026-01-01T00:00:00Z"}}
    given = pod(node="gpu-1", containerStatuses=waits("CrashLoopBackOff", lastState=end))
    ready = event("Unhealthy", "Readiness probe failed: refused", "2026-01-01T00:00:03Z")
    found = known(cause_of(given, Around(events=(KILLED, UNHEALTHY, ready))))
    assert found.text.endswith("“Liveness probe failed: no answer”")


def lost(status: str, message: str) -> Json:
    condition = {"type": "Ready", "status": status, "message": message}
    return {"metadata": {"name": "gpu-1"}, "spec": {}, "status": {"conditions": [condition]}}


def test_a_node_whose_kubelet_reports_no_more_is_the_cause() -> None:
    message = "Kubelet stopped posting node status."
    around = Around(nodes=(lost("Unknown", message),))
    running = [{"name": "main", "ready": True, "state": {"running": {}}}]
    for statuses in ([], running):
        found = known(cause_of(pod(node="gpu-1", containerStatuses=statuses), around))
        assert found.kind is Kind.NODE
        assert found.text == f"its node gpu-1 is not ready: {message}"
    assert cause_of(pod(node="gpu-2", containerStatuses=running), around) is None


def test_what_a_kubelet_says_of_a_pod_counts_more_than_that_its_node_is_not_ready() -> None:
    around = Around(nodes=(lost("False", "cni plugin not initialized"),))
    assert known(cause_of(pod(node="gpu-1"), around)).kind is Kind.NODE
    broken = waits("ErrImagePull", "not found")
    assert known(cause_of(pod(node="gpu-1", containerStatuses=broken), around)).kind is Kind.IMAGE


def test_a_sandbox_that_fails_since_its_node_is_not_ready_names_the_node() -> None:
    failed = event("FailedCreatePodSandBox", "dial unix containerd.sock: no such file")
    around = Around(events=(failed,), nodes=(lost("False", "container runtime is down"),))
    assert known(cause_of(pod(node="gpu-1"), around)).kind is Kind.NODE
    ready = replace(around, nodes=())
    assert known(cause_of(pod(node="gpu-1"), ready)).kind is Kind.SANDBOX


def test_a_preempted_pod_whose_program_ended_without_an_error_names_the_preemption() -> None:
    said = event("Preempting", "Preempted in order to admit critical pod")
    ended = pod(node="gpu-1", phase="Succeeded")
    assert cause_of(ended) is None
    assert known(cause_of(ended, Around(events=(said,)))).kind is Kind.PREEMPTION


EXCEEDED = (
    'Error creating: pods "train-x" is forbidden: exceeded quota: gpus, requested: '
    "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=4, limited: "
    "requests.nvidia.com/gpu=8"
)


def controller(kind: str, name: str, message: str = "") -> Json:
    """Return a controller, with the words of the API server that refuse its pods."""
    failure = {"type": "ReplicaFailure", "status": "True", "message": message}
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}"}
    return {"kind": kind, "metadata": meta, "status": {"conditions": [failure] if message else []}}


@pytest.mark.parametrize("name", ["train", "train-7d9", "train-7d9-abcde"])
def test_a_pod_that_was_not_created_names_the_quota(name: str) -> None:
    sets = (
        controller("ReplicaSet", "trainer-1", "other"),
        controller("ReplicaSet", "train-7d9", EXCEEDED),
    )
    found = known(cause_of_missing(name, Around(controllers=sets)))
    assert found.kind is Kind.QUOTA
    assert "exceeded quota: gpus" in found.text


@pytest.mark.promise("An event of a controller counts by the UID of a controller that exists.")
def test_an_event_counts_only_for_a_controller_that_exists_by_its_uid() -> None:
    said = event("FailedCreate", "denied: GPU005", kind="Job", name="train", uid="u-train")
    jobs = (controller("Job", "train"),)
    found = known(cause_of_missing("train", Around(events=(said,), controllers=jobs)))
    assert found.kind is Kind.ADMISSION
    assert "denied: GPU005”" in found.text
    assert cause_of_missing("other", Around(events=(said,), controllers=jobs)) is None
    assert cause_of_missing("train", Around(events=(said,))) is None
    forged = event("FailedCreate", "denied", kind="Job", name="train", uid="u-forged")
    assert cause_of_missing("train", Around(events=(forged,), controllers=jobs)) is None


@pytest.mark.parametrize(
    ("message", "kind", "cure"),
    [
        (
            "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical "
            "system-cluster-critical]}]",
            Kind.QUOTA,
            "scopeSelector",
        ),
        (
            'pods "nvdp-x" is forbidden: failed quota: gpus: must specify requests.cpu for: ctr',
            Kind.QUOTA,
            "declare the requests",
        ),
        (
            'pods "nvdp-x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes '
            '(volume "device-plugin")',
            Kind.ADMISSION,
            "pod-security.kubernetes.io/enforce",
        ),
        (
            'pods "nvdp-x" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
            Kind.ADMISSION,
            "create this RuntimeClass",
        ),
        (
            'pods "nvdp-x" is forbidden: no PriorityClass with name gpu was found',
            Kind.ADMISSION,
            "create this PriorityClass",
        ),
        (
            'pods "nvdp-" is forbidden: error looking up service account gpu/nvdp: serviceaccount '
            '"nvdp" not found',
            Kind.ADMISSION,
            "create this ServiceAccount",
        ),
        (
            'Internal error occurred: failed calling webhook "mutate.kyverno.svc-fail": failed to '
            'call webhook: Post "https://kyverno-svc.kyverno.svc:443/mutate/fail?timeout=10s": '
            "context deadline exceeded",
            Kind.ADMISSION,
            "behind this webhook",
        ),
        (
            'pods "nvdp-x" is forbidden: maximum cpu usage per Container is 2, but limit is 4',
            Kind.ADMISSION,
            "LimitRange",
        ),
    ],
)
def test_a_refusal_of_the_api_server_has_the_cure_of_its_message(
    message: str, kind: Kind, cure: str
) -> None:
    around = Around(controllers=(controller("Deployment", "nvdp", message),))
    found = known(cause_of_missing("nvdp", around))
    assert found.kind is kind
    assert cure in found.cure


def test_a_used_up_quota_is_named_after_its_events_are_gone() -> None:
    status = {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": "8"}}
    quota = {"metadata": {"name": "gpus"}, "status": status}
    found = known(cause_of_missing("train", Around(quotas=(quota,))))
    assert "gpus (requests.nvidia.com/gpu 8 of 8)" in found.text
