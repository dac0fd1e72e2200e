"""The simulated GPU Operator creates operands for a ClusterPolicy and removes them with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from gpu_cluster.machine import processes
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import Api
from gpu_cluster_lab.simulator.controller import operand_objects, operands
from gpu_cluster_lab.simulator.controller.discovery import PCI
from gpu_cluster_lab.simulator.controller.operator import Operator
from tests.proofs.simulator.operating import DEPLOYMENTS, create_policy, operating
from tests.proofs.simulator.running import CLUSTER, Running, declared, until
from tests.simulated import simulate

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
MANAGER = operands.DEPLOY + "mig-manager"
LABELLED = dict.fromkeys((operands.PRESENT, MANAGER, *operands.STATE_LABELS), "true")


@pytest.fixture
def operator(cluster: Running) -> Iterator[Running]:
    """Yield the cluster with the GPU Operator's CRD and running pod."""
    with operating(cluster):
        yield cluster


def state(cluster: Running) -> str | None:
    policy = cluster.request("GET", f"{operands.POLICIES}/{operands.POLICY}")
    return (policy.get("status") or {}).get("state")


def names(cluster: Running) -> set[str]:
    names = {item["metadata"]["name"] for item in cluster.items(DAEMON_SETS)}
    return names - {"nfd-worker"}


def labels(cluster: Running) -> dict[str, dict[str, str]]:
    nodes = cluster.items("/api/v1/nodes")
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}


def test_operands_come_with_the_policy_and_go_with_it(operator: Running) -> None:
    before = labels(operator)
    create_policy(operator, driver={"enabled": False}, dcgmExporter={"enabled": False})
    until(lambda: state(operator), lambda value: value == "ready")
    assert names(operator) == {
        "nvidia-container-toolkit-daemonset",
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin-mps-control-daemon",
        "gpu-feature-discovery",
        "nvidia-mig-manager",
        "nvidia-operator-validator",
    }
    for item in operator.items(DAEMON_SETS):
        if item["metadata"]["name"] == "nfd-worker":
            continue
        assert item["metadata"]["ownerReferences"][0]["kind"] == "ClusterPolicy"
        assert item["metadata"]["annotations"][marks.SIMULATED_OPERAND] == "true"
    assert operator.request("GET", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")["handler"]
    operator.wait_gpus("gpu-1", "8", "8")
    assert labels(operator)["gpu-1"][operands.PRESENT] == "true"
    assert operands.PRESENT not in labels(operator)["control-plane-1"]
    operator.request("DELETE", f"{operands.POLICIES}/{operands.POLICY}")
    until(lambda: names(operator), lambda value: not value)
    # The real operator leaves its labels on nodes too (NVIDIA/gpu-operator#1391).
    assert labels(operator)["gpu-1"] == {**before["gpu-1"], **LABELLED}
    until(lambda: operator.items("/apis/node.k8s.io/v1/runtimeclasses"), lambda value: not value)
    operator.wait_gpus("gpu-1", "8", "0")


def test_without_a_node_with_gpus_there_are_no_operands_and_the_policy_is_ready(
    operator: Running,
) -> None:
    def find(value: str) -> None:
        body = {"metadata": {"labels": {PCI: value}}}
        for name in ("gpu-1", "gpu-2", "gpu-3"):
            operator.request("PATCH", f"/api/v1/nodes/{name}", body)

    find("false")
    create_policy(operator)
    try:
        until(lambda: state(operator), lambda value: value == "ready")
        policy = operator.request("GET", f"{operands.POLICIES}/{operands.POLICY}")
        assert "NoGPUNodes" in {item["reason"] for item in policy["status"]["conditions"]}
        assert names(operator) == set()
        find("true")
        until(lambda: names(operator), lambda value: len(value) > 5)
        find("false")
        until(lambda: labels(operator)["gpu-1"][operands.PRESENT], lambda value: value == "false")
        assert len(names(operator)) > 5
    finally:
        find("true")
        operator.request("DELETE", f"{operands.POLICIES}/{operands.POLICY}")
        until(lambda: names(operator), lambda value: not value)


def test_a_changed_policy_changes_the_operands(operator: Running) -> None:
    create_policy(operator, gfd={"enabled": True})
    until(lambda: state(operator), lambda value: value == "ready")
    path = f"{operands.POLICIES}/{operands.POLICY}"
    spec = {"gfd": {"enabled": False}, "dcgm": {"enabled": True}}
    operator.request("PATCH", path, {"spec": spec})
    until(
        lambda: names(operator),
        lambda value: "nvidia-dcgm" in value and "gpu-feature-discovery" not in value,
    )
    operator.request("DELETE", path)
    until(lambda: names(operator), lambda value: not value)


def test_a_started_again_controller_leaves_operands_alone(operator: Running) -> None:
    create_policy(operator)
    until(lambda: state(operator), lambda value: value == "ready")
    uids = {item["metadata"]["uid"] for item in operator.items(DAEMON_SETS)}
    pid = simulator.status(CLUSTER).running["controller"]
    processes.stop(pid, "gpu_cluster_lab.simulator.controller")
    assert simulate(CLUSTER, declared()).started
    operator.wait_gpus("gpu-1", "8", "8")
    assert {item["metadata"]["uid"] for item in operator.items(DAEMON_SETS)} == uids
    operator.request("DELETE", f"{operands.POLICIES}/{operands.POLICY}")
    until(lambda: names(operator), lambda value: not value)


def test_operands_are_made_in_the_order_of_the_real_operator() -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, controllers/state_manager.go, addState
    enabled = {"enabled": True}
    spec = {"dcgm": enabled, "nodeStatusExporter": enabled}
    assert [operand.name for operand in operands.enabled({"spec": spec})] == [
        "nvidia-driver-daemonset",
        "nvidia-container-toolkit-daemonset",
        "nvidia-operator-validator",
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin-mps-control-daemon",
        "nvidia-dcgm",
        "nvidia-dcgm-exporter",
        "gpu-feature-discovery",
        "nvidia-mig-manager",
        "nvidia-node-status-exporter",
    ]


def test_the_daemon_of_mps_comes_with_the_plugin_and_waits_for_nodes_that_share_by_it() -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, assets/state-mps-control-daemon/0400_daemonset.yaml
    policy = {"metadata": {"name": operands.POLICY, "uid": "1"}}
    (operand,) = (each for each in operands.enabled(policy) if "mps" in each.name)
    pod = operand_objects.daemon_set(operand, policy, "default")["spec"]["template"]["spec"]
    wanted = {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mps.capable": "true"}
    assert pod["nodeSelector"] == wanted
    without = {**policy, "spec": {"devicePlugin": {"enabled": False}}}
    assert operand not in operands.enabled(without)


def made(name: str, **spec: Any) -> Any:
    """Return the DaemonSet of an operand under a ClusterPolicy."""
    policy = {"metadata": {"name": operands.POLICY, "uid": "1"}, "spec": spec}
    (operand,) = (each for each in operands.OPERANDS if each.name == name)
    return operand_objects.daemon_set(operand, policy, "default")


def test_what_selects_pods_is_no_ones_to_change() -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go,
    # applyCommonDaemonsetMetadata
    labels = {"app": "mine", "app.kubernetes.io/part-of": "mine", "team": "a"}
    body = made("gpu-feature-discovery", daemonsets={"labels": labels})
    selector = {"app": "gpu-feature-discovery", "app.kubernetes.io/part-of": "nvidia-gpu"}
    assert body["spec"]["selector"]["matchLabels"] == selector
    found = body["spec"]["template"]["metadata"]["labels"]
    assert found == {**selector, "team": "a", **operands.MANAGED_BY}


def test_a_plugins_configuration_brings_its_manager_and_only_the_plugin_its_variables() -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, handleDevicePluginConfig
    plugin = {
        "config": {"name": "files", "default": "sliced"},
        "env": [{"name": "PASS_DEVICE_SPECS", "value": "true"}],
    }
    for name in ("nvidia-device-plugin-daemonset", "nvidia-device-plugin-mps-control-daemon"):
        pod = made(name, devicePlugin=plugin)["spec"]["template"]["spec"]
        own, manager = pod["containers"]
        assert manager["name"] == "config-manager"
        assert {"name": "DEFAULT_CONFIG", "value": "sliced"} in manager["env"]
        assert [volume["name"] for volume in pod["volumes"]] == ["files"]
        variables = {variable["name"] for variable in own["env"]}
        assert ("PASS_DEVICE_SPECS" in variables) == (name == "nvidia-device-plugin-daemonset")


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("nvidia-dcgm", {"updateStrategy": "OnDelete"}, {"type": "OnDelete"}),
        (
            "nvidia-driver-daemonset",
            {"rollingUpdate": {"maxUnavailable": "2"}},
            {"type": "OnDelete"},
        ),
        (
            "nvidia-dcgm",
            {"rollingUpdate": {"maxUnavailable": "50%"}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
        ),
        (
            "nvidia-dcgm",
            {"rollingUpdate": {"maxUnavailable": "2"}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
        ),
    ],
)
def test_a_driver_alone_is_never_updated_by_the_daemon_set(
    name: str, given: Any, wanted: Any
) -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, applyUpdateStrategyConfig
    assert made(name, daemonsets=given)["spec"]["updateStrategy"] == wanted


@pytest.mark.parametrize(
    ("cdi", "wanted"),
    [
        ({"enabled": False}, ["nvidia"]),
        ({"enabled": True}, ["nvidia", "nvidia-cdi", "nvidia-legacy"]),
        ({"enabled": True, "nriPluginEnabled": True}, []),
    ],
)
def test_runtime_classes_follow_how_devices_are_handed_out(cdi: Any, wanted: list[str]) -> None:
    # Source: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go, RuntimeClasses
    policy = {"metadata": {"name": operands.POLICY, "uid": "1"}, "spec": {"cdi": cdi}}
    found = operand_objects.runtime_classes(policy)
    assert [item["metadata"]["name"] for item in found] == wanted


SIMULATED = {"metadata": {"name": "gpu-1", "annotations": {marks.FAKE_NODE: "fake"}}}


def operator_pod(node: str) -> Any:
    return {
        "metadata": {"uid": "2", "namespace": "default"},
        "spec": {"nodeName": node},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


class Asked(Api):
    """Fake API server that records the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        self.asked.append(f"{method} {path}")
        return {"items": [], "metadata": {"resourceVersion": "1"}}


@pytest.mark.parametrize(("node", "works"), [("gpu-1", True), ("real-1", False)])
def test_a_pod_on_a_real_kubelet_is_left_to_the_real_operator(node: str, works: bool) -> None:
    api = Asked()
    operator = Operator(api)
    meta = {"name": operands.POLICY, "uid": "1", "generation": 1}
    operator._policy_changed({"metadata": meta, "spec": {}})
    operator.node_changed(SIMULATED)
    operator.node_changed({"metadata": {"name": "real-1"}})
    operator._pod_changed(operator_pod(node))
    asyncio.run(operator._work(operands.POLICY))
    assert bool(api.asked) == works


class Leaving(Asked):
    """Fake API server on which other clients delete objects while the operator works.

    The operator's first request deletes the ClusterPolicy; each DELETE request deletes all
    operands.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tell: list[Callable[[], None]] = []

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        for tell in self.tell if method == "DELETE" else self.tell[:1]:
            tell()
        return await super().request(method, path)


def test_what_goes_during_the_work_does_not_end_the_operator() -> None:
    api = Leaving()
    operator = Operator(api)
    meta = {"name": operands.POLICY, "uid": "1", "generation": 1}
    policy = {"metadata": meta, "spec": {"driver": {"enabled": False}}}
    unwanted = [
        operand_objects.daemon_set(operand, policy, "default")
        for operand in operands.OPERANDS
        if operand.key in ("driver", "dcgm")
    ]
    for item in unwanted:
        # Set this field in the objects of the fake API server, because the real API server sets it
        # in every object.
        item["metadata"]["generation"] = 1
    api.tell.append(lambda: operator._policy_gone(policy))
    api.tell += [partial(operator._daemon_set_gone, item) for item in unwanted]
    operator.node_changed(SIMULATED)
    operator._pod_changed(operator_pod("gpu-1"))
    for item in unwanted:
        operator._daemon_set_changed(item)
    operator._policy_changed(policy)
    asyncio.run(operator._work(operands.POLICY))
    assert sum(asked.startswith("DELETE") for asked in api.asked) == len(unwanted)
    assert api.asked[-1] == f"PATCH {operands.POLICIES}/{operands.POLICY}/status"
    # The operator's second call removes what is left of the deleted policy.
    asyncio.run(operator._work(operands.POLICY))
    assert api.asked[-1] == "GET /apis/node.k8s.io/v1/runtimeclasses"


def test_labels_of_discovery_go_after_the_operator_that_reads_them(operator: Running) -> None:
    create_policy(operator)
    until(lambda: state(operator), lambda value: value == "ready")
    operator.request("DELETE", f"{DAEMON_SETS}/nfd-worker", propagationPolicy="Background")
    until(lambda: operator.pods(role="worker"), lambda value: not value)
    assert labels(operator)["gpu-1"][PCI] == "true"
    operator.request("DELETE", f"{DEPLOYMENTS}/gpu-operator", propagationPolicy="Background")
    until(lambda: labels(operator)["gpu-1"].get(PCI), lambda value: value is None)
    # The operator no longer runs. If it ran, it would have set the label to "false" (v24.3.0,
    # state_manager.go, labelGPUNodes).
    assert labels(operator)["gpu-1"][operands.PRESENT] == "true"
