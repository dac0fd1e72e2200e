"""Simulated nodes advertise GPUs while a device plugin runs, except faulty GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator import faults, hosts, logs, marks, set_fault
from gpu_cluster_lab.simulator.controller.devices import gpu_uuid
from gpu_cluster_lab.simulator.controller.preparation import DROP_IN
from tests.proofs.simulator.running import CLUSTER, Json, Running, declared, until
from tests.simulated import simulate

# Configuration that `nvidia-ctk runtime configure` writes for containerd 2.
PREPARED = """version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
"""


def message(pod: dict[str, object]) -> str | None:
    statuses = pod["status"].get("containerStatuses")  # type: ignore[attr-defined]
    if not statuses or statuses[0]["state"].get("waiting", {}).get("reason") != "CrashLoopBackOff":
        return None
    return str(statuses[0]["lastState"]["terminated"]["message"])


def test_no_gpu_before_the_plugin_and_none_after_it(cluster: Running) -> None:
    cluster.validate()
    pod = until(
        lambda: cluster.validation_pods("Pending")[0],
        lambda pod: bool(pod["status"].get("conditions")),
    )
    assert "Insufficient nvidia.com/gpu" in pod["status"]["conditions"][0]["message"]
    cluster.deploy_plugin()
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        cluster.wait_gpus(node, "8", "8")
    assert cluster.gpus("control-plane-1") == (None, None)
    cluster.validation_pods("Succeeded")
    cluster.remove_plugin()
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        cluster.wait_gpus(node, "8", "0")


@pytest.mark.promise(
    "A pod with restartPolicy Never or OnFailure completes on the embedded cluster and gives its "
    "GPUs back; one with Always goes on."
)
def test_a_pod_that_runs_once_completes_and_gives_its_gpus_back(cluster: Running) -> None:
    cluster.deploy_plugin()
    cluster.wait_gpus("gpu-1", "8", "8")
    path = "/api/v1/namespaces/default/pods"
    cluster.hold("serves", "gpu-1", 1)
    for policy in ("Never", "OnFailure"):
        name = f"runs-once-{policy.lower()}"
        container = {"name": "add", "image": "x", "resources": {"limits": {marks.GPU: "7"}}}
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": "gpu-1"},
            "restartPolicy": policy,
            "containers": [container],
        }
        cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        done = until(
            lambda name=name: cluster.request("GET", f"{path}/{name}"),  # type: ignore[misc]
            lambda pod: pod["status"]["phase"] not in ("Pending", "Running"),
        )
        assert done["status"]["phase"] == "Succeeded"
        (status,) = done["status"]["containerStatuses"]
        assert status["state"]["terminated"]["reason"] == "Completed"
    assert cluster.request("GET", f"{path}/serves")["status"]["phase"] == "Running"


def test_a_log_says_that_it_is_simulated_and_names_the_containers_own_gpu(
    cluster: Running,
) -> None:
    cluster.deploy_plugin()
    cluster.validate(count=3)
    for pod in cluster.validation_pods("Succeeded", count=3):
        given = []
        for container in pod["spec"]["containers"]:
            mark, device, *run = cluster.log(pod, container["name"])
            assert (mark, tuple(run)) == (marks.SIMULATED, logs.RUNS[logs.PASSED])
            given.append(device)
        node = pod["spec"]["nodeName"]
        assert {item.rpartition("UUID: ")[2].rstrip(")") for item in given} == {
            gpu_uuid(node, index) for index in range(8)
        }
    assert cluster.log(cluster.plugin_pod("gpu-1")) == [marks.SIMULATED]


def test_a_plugin_that_cannot_start_says_why_and_heals(cluster: Running) -> None:
    said = faults.DRIVER_MISSING_MESSAGE
    set_fault(CLUSTER, "gpu-2", faults.DRIVER_MISSING)
    cluster.deploy_plugin()
    cluster.wait_gpus("gpu-1", "8", "8")
    pod = until(lambda: cluster.plugin_pod("gpu-2"), lambda pod: message(pod) is not None)
    assert message(pod) == said
    assert cluster.gpus("gpu-2")[1] in (None, "0")
    assert cluster.node("gpu-2")["metadata"]["annotations"][marks.FAULT_MESSAGE] == said
    set_fault(CLUSTER, "gpu-2")
    cluster.wait_gpus("gpu-2", "8", "8")
    assert marks.FAULT_MESSAGE not in cluster.node("gpu-2")["metadata"]["annotations"]
    set_fault(CLUSTER, "gpu-2", faults.DRIVER_MISSING)  # The fault is set while the plugin runs.
    cluster.wait_gpus("gpu-2", "8", "0")
    until(lambda: cluster.plugin_pod("gpu-2"), lambda pod: message(pod) == said)
    set_fault(CLUSTER, "gpu-2", faults.RUNTIME_NOT_CONFIGURED)
    until(lambda: cluster.plugin_pod("gpu-2"), has_no_sandbox)


def sandbox_events(cluster: Running, pod: Json) -> list[Json]:
    selector = f"involvedObject.uid={pod['metadata']['uid']},reason=FailedCreatePodSandBox"
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/events"
    found: list[Json] = cluster.request("GET", path, fieldSelector=selector)["items"]
    return found


def has_no_sandbox(pod: Json) -> bool:
    """Return whether a pod waits for its sandbox, as a kubelet reports it: without a reason."""
    statuses = pod["status"].get("containerStatuses") or []
    waits = [status["state"] for status in statuses] == [
        {"waiting": {"reason": "ContainerCreating"}}
    ]
    return waits and pod["status"]["phase"] == "Pending" and not pod["status"].get("message")


def test_a_plugin_without_its_runtime_is_explained_by_an_event_alone(cluster: Running) -> None:
    set_fault(CLUSTER, "gpu-2", faults.RUNTIME_NOT_CONFIGURED)
    cluster.deploy_plugin()
    cluster.wait_gpus("gpu-1", "8", "8")
    pod = until(lambda: cluster.plugin_pod("gpu-2"), has_no_sandbox)
    (event,) = until(lambda: sandbox_events(cluster, pod), bool)
    assert event["message"] == faults.RUNTIME_NOT_CONFIGURED_MESSAGE
    assert event["source"] == {"component": "kubelet", "host": "gpu-2"}
    assert cluster.gpus("gpu-2")[1] in (None, "0")
    set_fault(CLUSTER, "gpu-2")
    cluster.wait_gpus("gpu-2", "8", "8")
    set_fault(CLUSTER, "gpu-2", faults.RUNTIME_NOT_CONFIGURED)
    cluster.wait_gpus("gpu-2", "8", "0")
    until(lambda: cluster.plugin_pod("gpu-2"), has_no_sandbox)


def test_unhealthy_gpus_are_withdrawn_from_allocatable_only(cluster: Running) -> None:
    cluster.deploy_plugin()
    set_fault(CLUSTER, "gpu-1", "unhealthy-gpus=3")
    cluster.wait_gpus("gpu-1", "8", "5")
    said = cluster.node("gpu-1")["metadata"]["annotations"][marks.FAULT_MESSAGE]
    assert said.count("XidCriticalError: Xid=79 on Device=") == 3
    set_fault(CLUSTER, "gpu-1")
    cluster.wait_gpus("gpu-1", "8", "8")


@pytest.mark.parametrize(
    ("fault", "phase", "code", "file"),
    [
        (faults.VALIDATION_FAILS, "Failed", 1, logs.FAILED),
        (faults.VALIDATION_SILENT, "Succeeded", 0, logs.SILENT),
    ],
)
def test_a_validation_that_does_not_pass(
    cluster: Running, fault: str, phase: str, code: int, file: str
) -> None:
    set_fault(CLUSTER, "gpu-3", fault)
    cluster.deploy_plugin()
    cluster.validate(**{"kubernetes.io/hostname": "gpu-3"})
    (pod,) = cluster.validation_pods(phase)
    for status in pod["status"]["containerStatuses"]:
        assert status["state"]["terminated"]["exitCode"] == code
        mark, _, *run = cluster.log(pod, status["name"])
        assert (mark, tuple(run)) == (marks.SIMULATED, logs.RUNS[file])
        assert "Test PASSED" not in run
    assert cluster.gpus("gpu-3") == ("8", "8")


def test_a_gpu_that_fails_is_the_only_one_that_does(cluster: Running) -> None:
    set_fault(CLUSTER, "gpu-3", "kernel-fails=5")
    cluster.deploy_plugin()
    cluster.validate(**{"kubernetes.io/hostname": "gpu-3"})
    (pod,) = cluster.validation_pods("Failed")
    codes = [
        container_status["state"]["terminated"]["exitCode"]
        for container_status in pod["status"]["containerStatuses"]
    ]
    assert sorted(codes) == [0] * 7 + [1]
    failed = f"gpu-{codes.index(1)}"
    assert gpu_uuid("gpu-3", 5) in cluster.log(pod, failed)[1]


def test_what_others_hold_is_given_to_nobody_else(cluster: Running) -> None:
    cluster.deploy_plugin()
    cluster.wait_gpus("gpu-2", "8", "8")
    cluster.hold("train", "gpu-2", 3)
    cluster.validate(gpus=5, **{"kubernetes.io/hostname": "gpu-2"})
    (pod,) = cluster.validation_pods("Succeeded")
    lines = {cluster.log(pod, container["name"])[1] for container in pod["spec"]["containers"]}
    assert len(lines) == 5


def test_several_faults_at_once(cluster: Running) -> None:
    cluster.deploy_plugin()
    set_fault(CLUSTER, "gpu-1", "unhealthy-gpus=1", "validation-fails")
    cluster.wait_gpus("gpu-1", "8", "7")
    cluster.validate(gpus=7, **{"kubernetes.io/hostname": "gpu-1"})
    cluster.validation_pods("Failed")


def test_a_fault_with_a_typing_error_is_never_taken_for_health(cluster: Running) -> None:
    body = {"metadata": {"annotations": {marks.FAULT: "drvier-missing"}}}
    cluster.request("PATCH", "/api/v1/nodes/gpu-1", body)
    cluster.deploy_plugin()
    pod = until(lambda: cluster.plugin_pod("gpu-1"), lambda pod: message(pod) is not None)
    assert "fault 'drvier-missing': not known" in str(message(pod))
    assert cluster.gpus("gpu-1")[1] in (None, "0")


@pytest.fixture
def host(cluster: Running) -> Iterator[Path]:
    """Yield the root folder of the simulated SSH host that belongs to the node gpu-1."""
    key = hosts.host_public_key("gpu-1")
    entry = {"name": "gpu-1", "address": "127.0.0.1", "port": 20022, "hostKey": key}
    cluster_declared = declared(hosts=(entry,))
    _, public = hosts.client_key(CLUSTER)
    settings = hosts.HostSettings(mode="plain")
    try:
        hosts.up(CLUSTER, cluster_declared.hosts, public, settings)
        simulate(CLUSTER, cluster_declared)
        root = hosts.root_of(CLUSTER, "gpu-1")
        assert root is not None
        yield root
    finally:
        hosts.down(CLUSTER)
        simulate(CLUSTER, declared())


def test_a_node_with_a_host_is_judged_by_the_hosts_files(cluster: Running, host: Path) -> None:
    assert cluster.node("gpu-1")["metadata"]["annotations"][marks.PREPARED] == "host"
    cluster.deploy_plugin()
    cluster.wait_gpus("gpu-2", "8", "8")  # A node without an SSH host counts as prepared.
    pod = until(lambda: cluster.plugin_pod("gpu-1"), has_no_sandbox)
    assert until(lambda: sandbox_events(cluster, pod), bool)
    assert cluster.gpus("gpu-1")[1] in (None, "0")
    drop_in = host / DROP_IN
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text(PREPARED)
    cluster.wait_gpus("gpu-1", "8", "8")
    drop_in.write_text("version = 3\n")
    cluster.wait_gpus("gpu-1", "8", "0")
    drop_in.write_text(PREPARED)
    cluster.wait_gpus("gpu-1", "8", "8")
    drop_in.unlink()
    cluster.wait_gpus("gpu-1", "8", "0")
