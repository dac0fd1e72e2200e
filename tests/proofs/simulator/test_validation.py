"""The program `validation` on the embedded cluster: it tests each GPU and disturbs no workload."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Client, ClusterError
from gpu_cluster.nodes import node_scheduling
from gpu_cluster.nodes.record import RECORD
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from gpu_cluster.validation import validation
from gpu_cluster.validation.selection import ASKED
from gpu_cluster_lab.simulator import marks, set_fault
from gpu_cluster_lab.simulator.controller.devices import gpu_uuid
from tests.proofs.simulator.running import CLUSTER, NAMESPACE, Json, declared, until
from tests.proofs.simulator.validating import JOBS, SPACES, Stack, given, serve
from tests.resolved import platform_of


def test_each_gpu_runs_a_kernel_and_is_named_by_its_uuid(stack: Stack) -> None:
    assert stack.finding() == "due: node gpu-1, gpu-2, gpu-3: not validated"
    for name, output in stack.run().items():
        assert (output["computed"], output["simulated"], output["deferred"]) == (0, 8, 0)
        assert set(output["devices"]) == {gpu_uuid(name, index) for index in range(8)}
        assert output["since"]
    until(stack.leftovers, lambda left: left == [])
    assert stack.finding() is None


def test_only_what_changed_is_validated_again_and_what_is_asked_for(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.run()
    before = {name: stack.record(name) for name in ("gpu-1", "gpu-2", "gpu-3")}
    stack.run()
    assert before == {name: stack.record(name) for name in before}
    time.sleep(1)  # Times in validation records have a resolution of one second.
    stack.document = replace(stack.document, own={"gpu-2": {"driver.version": "580"}})
    assert stack.finding() == "change: node gpu-2: driver.version any → 580"
    stack.run()
    monkeypatch.setenv(ASKED, "gpu-3")
    assert stack.finding() == "due: node gpu-3: validation asked for"
    stack.run()
    monkeypatch.delenv(ASKED)
    changed = {name: stack.record(name)["since"] != kept["since"] for name, kept in before.items()}
    assert changed == {"gpu-1": False, "gpu-2": True, "gpu-3": True}


def test_a_gpu_that_computes_nothing_is_named_and_the_others_count(stack: Stack) -> None:
    set_fault(CLUSTER, "gpu-2", "kernel-fails=5")
    with pytest.raises(ClusterError) as caught:
        stack.run()
    assert f"node gpu-2: found {gpu_uuid('gpu-2', 5)}: exit code 1" in str(caught.value)
    assert "system not yet initialized" in str(caught.value)
    assert len(stack.record("gpu-1")["devices"]) == 8
    # The failed Job and its pod are kept for diagnosis.
    kept = until(stack.leftovers, lambda left: len(left) == 2)
    assert [name.startswith("validate-gpu-2") for name in kept] == [True, True]
    assert stack.finding() == "due: node gpu-2: not validated"
    set_fault(CLUSTER, "gpu-2")
    assert stack.run()["gpu-2"]["simulated"] == 8


def test_a_plugin_that_gives_one_gpu_twice_is_named(stack: Stack) -> None:
    # The device plugin advertises the declared number of GPUs, but each of only four GPUs twice.
    stack.cluster.share_plugin("0,1,2,3", 2)
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        stack.cluster.wait_gpus(node, "8", "8")
    with pytest.raises(ClusterError) as caught:
        stack.run()
    for index in range(4):
        said = f"{gpu_uuid('gpu-1', index)}: the device plugin gave it to 2 containers"
        assert said in str(caught.value)


def test_gpus_in_use_are_deferred_and_the_next_run_takes_up_the_rest(stack: Stack) -> None:
    stack.cluster.wait_gpus("gpu-3", "8", "8")
    held = stack.cluster.hold("train", "gpu-3", 3)
    output = stack.run()["gpu-3"]
    assert (output["simulated"], output["deferred"]) == (5, 3)
    # As long as the same pod uses the GPUs, the inspection reports no due validation.
    assert stack.finding() is None
    holder = "default/train (Running, holds 3)"
    assert output["held"] == stack.record("gpu-3")["held"] == holder
    assert stack.deferrals() == {"gpu-3": f"3 GPUs not validated: held by {holder}"}
    assert stack.run()["gpu-3"]["deferred"] == 3
    stack.cluster.request("DELETE", "/api/v1/namespaces/default/pods/train")
    until(
        stack.finding,
        lambda finding: finding == "due: node gpu-3: GPUs that other pods used may be free",
    )
    output = stack.run()["gpu-3"]
    assert (output["simulated"], output["deferred"]) == (8, 0)
    assert held["status"]["phase"] == "Running"


def test_a_node_that_this_run_validates_is_not_called_deferred(stack: Stack) -> None:
    stack.document = replace(stack.document, spaces=("default",))
    stack.cluster.wait_gpus("gpu-3", "8", "8")
    stack.cluster.hold("train", "gpu-3", 3)
    stack.run()
    assert list(stack.deferrals()) == ["gpu-3"]
    path = "/apis/apps/v1/namespaces/default/daemonsets/plugin"
    plugin = stack.cluster.request("GET", path)
    plugin["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    stack.cluster.request("PUT", path, plugin)
    assert "gpu-3" in str(stack.finding())
    assert stack.deferrals() == {}


@pytest.mark.slow
def test_whoever_must_not_defer_is_told_who_holds_the_gpus(stack: Stack) -> None:
    stack.cluster.wait_gpus("gpu-3", "8", "8")
    stack.cluster.hold("train", "gpu-3", 8)
    held = r"node gpu-3: found GPUs in use: 0 of 8 devices free; default/train \(Running, holds 8\)"
    with pytest.raises(ClusterError, match=held):
        stack.run(busy="fail")
    with pytest.raises(ClusterError, match=r"node gpu-3: found 0 of 8 .* default/train"):
        stack.run(busy="wait", timeout_seconds=3)


def meanwhile(stack: Stack, act: Callable[[], object], **changes: Any) -> dict[str, Json]:
    """Validate the pool, act once the validation pod of gpu-1 runs, and return the output."""
    set_fault(CLUSTER, "gpu-1", "slow=20")

    async def both() -> dict[str, Json]:
        document = replace(stack.document, **changes)
        running = asyncio.create_task(validation.validate(document))
        await asyncio.to_thread(stack.running_pod, "gpu-1")
        await asyncio.to_thread(act)
        result = await running
        return {node["name"]: node for node in result["nodes"]}

    return asyncio.run(both())


def test_a_pod_that_wants_the_gpu_preempts_the_validation_at_once(stack: Stack) -> None:
    outcome = meanwhile(stack, lambda: stack.cluster.hold("train", "gpu-1", 8))
    assert (outcome["gpu-1"]["simulated"], outcome["gpu-1"]["deferred"]) == (0, 8)
    assert outcome["gpu-2"]["simulated"] == 8


@pytest.mark.promise("A validation pod that is evicted runs again; its node does not fail.")
def test_an_evicted_pod_is_not_a_failure_of_its_node(stack: Stack) -> None:
    def evict() -> None:
        pod = stack.running_pod("gpu-1")["metadata"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"]}}
        path = f"{SPACES}/{NAMESPACE}/pods/{pod['name']}/eviction"
        stack.cluster.request("POST", path, body)
        set_fault(CLUSTER, "gpu-1")

    assert meanwhile(stack, evict)["gpu-1"]["simulated"] == 8


@pytest.mark.promise("The validation of a run that was killed ends and is deleted by itself.")
def test_the_jobs_of_a_killed_run_end_and_go_without_another_run(stack: Stack) -> None:
    set_fault(CLUSTER, "gpu-1", "slow=600")
    killed = stack.killed_while_running("gpu-1")
    (job,) = [each for each in stack.jobs() if each["metadata"]["name"] == "validate-gpu-1"]
    assert killed < 0
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    # Only the times are shortened; kube-controller-manager does the rest.
    path = f"{JOBS}/validate-gpu-1"
    stack.cluster.request("PATCH", path, {"spec": {"ttlSecondsAfterFinished": 1}})
    stack.cluster.request("PATCH", path, {"spec": {"activeDeadlineSeconds": 1}})
    until(
        lambda: [name for name in stack.leftovers() if name.startswith("validate-gpu-1")],
        lambda left: left == [],
    )


@pytest.mark.slow
def test_a_validation_job_goes_with_its_node(stack: Stack) -> None:
    set_fault(CLUSTER, "gpu-1", "slow=600")
    stack.killed_while_running("gpu-1")
    stack.cluster.request("DELETE", "/api/v1/nodes/gpu-1")
    until(
        lambda: [each["metadata"]["name"] for each in stack.jobs()],
        lambda names: "validate-gpu-1" not in names,
    )


def test_one_unhealthy_gpu_says_how_many_are_offered_and_why(stack: Stack) -> None:
    set_fault(CLUSTER, "gpu-3", "unhealthy-gpus=1")
    with pytest.raises(ClusterError, match="node gpu-3: found 7 of 8 GPUs allocatable"):
        stack.run(timeout_seconds=5)


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        ("pods", r"its validation pod was rejected: .*exceeded quota: none"),
        ("count/jobs.batch", r"its validation Job was rejected: .*exceeded quota: none"),
    ],
)
def test_a_refused_pod_or_job_says_by_whom(stack: Stack, resource: str, said: str) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {resource: "0"}}}
    path = f"{SPACES}/{NAMESPACE}/resourcequotas"
    stack.cluster.request("POST", path, quota)
    until(
        lambda: stack.cluster.items(path)[0].get("status", {}),
        lambda status: bool(status.get("hard")),
    )
    with pytest.raises(ClusterError, match=said):
        stack.run()


def test_forgetting_leaves_nodes_as_they_were(stack: Stack) -> None:
    stack.run()
    stack.forget()
    for node in stack.cluster.items("/api/v1/nodes"):
        assert RECORD not in (node["metadata"].get("annotations") or {})
    assert marks.GPUS in stack.cluster.node("gpu-1")["metadata"]["annotations"]


def test_new_nodes_are_closed_until_each_of_their_gpus_ran_a_kernel(stack: Stack) -> None:
    given = declared()
    document = resolve(given, "test").scheduling.pools[0]
    stack.cluster.wait_gpus("gpu-1", "8", "8")
    stack.cluster.hold("train", "gpu-1", 1)
    set_fault(CLUSTER, "gpu-3", "kernel-fails=0")
    try:
        asyncio.run(node_scheduling.apply(document))
        # A kernel has already run on the GPUs of gpu-1, so this node gets no start-up taint.
        assert stack.closed() == ["gpu-2", "gpu-3"]
        with pytest.raises(ClusterError, match=rf"node gpu-3: .*exit code 1.*{STARTUP_TAINT.key}"):
            stack.run()
        assert stack.closed() == ["gpu-3"]
        assert stack.record("gpu-1")["missing"] == 1
        asyncio.run(node_scheduling.apply(document))
        # A node gets the start-up taint only once, so the taint isn't added after its removal.
        assert stack.closed() == ["gpu-3"]
        set_fault(CLUSTER, "gpu-3")
        stack.run()
        assert stack.closed() == []
    finally:
        asyncio.run(node_scheduling.release(document))


def test_a_stack_that_is_destroyed_leaves_no_node_closed(stack: Stack) -> None:
    given = declared()
    document = resolve(given, "test").scheduling.pools[0]
    asyncio.run(node_scheduling.apply(document))
    assert stack.closed() == ["gpu-1", "gpu-2", "gpu-3"]
    asyncio.run(node_scheduling.release(document))
    assert stack.closed() == []


@pytest.mark.slow
def test_cards_of_gpu_manager_are_validated_one_by_one(stack: Stack) -> None:
    stack.cluster.remove_plugin()
    serve(stack.cluster, "manager", {"name": "gpu-manager-ds"})
    stack.document = stack.of(given("gpu-manager"))
    for name, output in stack.run().items():
        assert output["offered"] == {"tencent.com/vcuda-core": 800}
        assert set(output["devices"]) == {gpu_uuid(name, index) for index in range(8)}


def test_devices_of_the_dra_driver_are_claimed_one_by_one(stack: Stack) -> None:
    stack.cluster.remove_plugin()
    resources = "/apis/resource.k8s.io/v1"
    selector = {"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}
    stack.cluster.request(
        "POST",
        f"{resources}/deviceclasses",
        {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [selector]}},
    )
    try:
        cluster = given("dra")
        claim = platform_of(cluster).claim(NAMESPACE, NAMESPACE, 1)
        path = f"{resources}/namespaces/{NAMESPACE}/resourceclaimtemplates"
        stack.cluster.request("POST", path, claim)
        serve(stack.cluster, "dra", {"dra-driver-nvidia-gpu-component": "kubelet-plugin"})
        stack.document = stack.of(cluster)
        for name, output in stack.run().items():
            assert set(output["devices"]) == {gpu_uuid(name, index) for index in range(8)}
    finally:
        stack.cluster.request("DELETE", f"{resources}/deviceclasses/gpu.nvidia.com")


def test_shared_gpus_are_validated_until_each_was_seen(stack: Stack) -> None:
    stack.cluster.remove_plugin()
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    maps = "/api/v1/namespaces/default/configmaps"
    data = {"config": json.dumps({"version": "v1", "sharing": sharing})}
    stack.cluster.request("POST", maps, {"metadata": {"name": "configs"}, "data": data})
    try:
        environment = [{"name": "DEFAULT_CONFIG", "value": "config"}]
        serve(
            stack.cluster,
            "sliced",
            {"app.kubernetes.io/name": "nvidia-device-plugin"},
            containers=[
                {"name": "nvidia-device-plugin-ctr", "image": "x", "env": environment},
            ],
            volumes=[{"name": "configs", "configMap": {"name": "configs"}}],
        )
        stack.document = stack.of(
            given("device-plugin", devicePlugin={"config": {"sharing": sharing}})
        )
        stack.cluster.wait_gpus("gpu-2", "32", "32")
        stack.cluster.hold("notebook", "gpu-2", 5)
        for name, output in stack.run().items():
            assert output["offered"] == {"nvidia.com/gpu": 32}
            assert set(output["devices"]) == {gpu_uuid(name, index) for index in range(8)}
    finally:
        stack.cluster.request("DELETE", f"{maps}/configs")


@pytest.mark.slow
def test_each_mig_device_runs_a_kernel(stack: Stack) -> None:
    stack.cluster.remove_plugin()
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        body = {"metadata": {"annotations": {marks.MIG: "1g.5gb=7"}}}
        stack.cluster.request("PATCH", f"/api/v1/nodes/{name}", body)
    try:
        environment = [{"name": "MIG_STRATEGY", "value": "mixed"}]
        serve(
            stack.cluster,
            "mig",
            {"app.kubernetes.io/name": "nvidia-device-plugin"},
            containers=[{"name": "nvidia-device-plugin-ctr", "image": "x", "env": environment}],
        )
        pool = {"mig": {"1g.5gb": 7}}
        stack.document = stack.of(given("gpu-operator", pool, gpuOperator={"migStrategy": "mixed"}))
        for output in stack.run().values():
            assert (output["simulated"], output["deferred"]) == (8, 0)
            assert [len(instances) for instances in output["devices"].values()] == [7] * 8
    finally:
        for name in ("gpu-1", "gpu-2", "gpu-3"):
            none: Json = {"metadata": {"annotations": {marks.MIG: None}}}
            stack.cluster.request("PATCH", f"/api/v1/nodes/{name}", none)


B100 = "gpu-cluster-test-b100"
"""Field manager of another pool of the stack."""


@pytest.mark.promise("A node's validation record survives its move to another pool.")
def test_a_record_that_another_pools_command_wrote_meanwhile_stays(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.run()
    coming = replace(
        stack.document, pool="b100", manager=B100, nodes=("gpu-2",), settings={"way": "another"}
    )
    request, once = Client.request, []

    async def between(client: Client, method: str, url: str, **options: Any) -> Any:
        """Run the new pool's Command between a read and a write by the old pool's Command."""
        if (method, url) == ("PATCH", "nodes/gpu-2") and not once:
            once.append(url)
            await validation.validate(coming)
        return await request(client, method, url, **options)

    monkeypatch.setattr(Client, "request", between)
    stack.run(nodes=["gpu-1", "gpu-3"], own={"gpu-1": {"driver": "another"}})
    assert once
    assert stack.record("gpu-2")["manager"] == B100
    assert len(stack.record("gpu-2")["devices"]) == 8


def test_a_renamed_pool_takes_over_the_records_of_its_nodes(stack: Stack) -> None:
    stack.run()
    before = stack.record("gpu-2")
    stack.run(pool="b100", manager=B100)
    # The state of an earlier version has a Command of the old pool, which Pulumi deletes last.
    asyncio.run(validation.forget(stack.document))
    stack.document = replace(stack.document, pool="b100", manager=B100)
    assert stack.record("gpu-2") == {**before, "manager": B100}
    assert stack.finding() is None


def test_a_record_that_goes_while_it_is_taken_over_is_made_again(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.run()
    request, once = Client.request, []

    async def between(client: Client, method: str, url: str, **options: Any) -> Any:
        if (method, url) == ("PATCH", "nodes/gpu-2") and not once:
            once.append(url)
            await validation.forget(stack.request())
        return await request(client, method, url, **options)

    monkeypatch.setattr(Client, "request", between)
    stack.run(pool="b100", manager=B100)
    assert once
    assert [stack.record(f"gpu-{number}")["manager"] for number in (1, 2, 3)] == [B100] * 3
