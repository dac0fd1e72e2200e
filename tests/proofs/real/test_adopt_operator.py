"""A stack adopts and later leaves NVIDIA's GPU Operator on real kubelets, without restarting pods.

Real are the operator's chart, the operator and its validator, all of one release and in pods on
real kubelets, and the device plugin that the operator deploys. They run on a mock of NVML. These
parts of a usual installation are missing or a mock:

- Driver and container toolkit are disabled in the operator, because the nodes have them, as on
  servers whose image has the driver.
- The validator runs all its checks, but its CUDA program `vectorAdd` is a test program that
  computes nothing. It doesn't create links to device nodes, because it would load kernel modules.
- DCGM exporter and MIG manager are disabled: they are not built here. GPU Feature Discovery is
  disabled because its pods mount a folder of the machine's firmware, which a virtual machine may
  lack. The tests set the label of Node Feature Discovery by which the operator finds GPU nodes.
- On the simulated nodes, the operator's pods are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.helm import Helm
from lab.real import build, parts
from lab.real import lab as real
from lab.real.lab import REAL, Lab
from lab.real.operator import images
from lab.real.stack import Stack, project
from tests.proofs.real.taking_over import ALL, LAB_LIMIT, lives, taken_over_and_handed_back

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

Json = dict[str, Any]
UNUSED = ("dra", "nfd")
SPACE = "nvidia-gpu-operator"
RELEASE = "gpu-operator-1764150000"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{SPACE}/daemonsets"
VALIDATOR = "nvidia-operator-validator"
READY = ("ready", len(ALL))
READY_LIMIT = 300.0
"""Seconds that the operator and its validator may need on a busy machine."""
# This DaemonSet has no pods, because no GPU is shared with MPS.
WITHOUT_PODS = "nvidia-device-plugin-mps-control-daemon"
OFF = {"enabled": False}
VALUES: Json = {
    **dict.fromkeys(("dcgmExporter", "driver", "gfd", "migManager", "nfd", "toolkit"), OFF),
    # On a simulated node the operator's pod would run nothing.
    "operator": {"nodeSelector": {"kubernetes.io/hostname": REAL[0]}},
    "devicePlugin": {
        "version": f"v{parts.PLUGIN}",
        "env": [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}],
    },
    "validator": {
        "driver": {"env": [{"name": "DISABLE_DEV_CHAR_SYMLINK_CREATION", "value": "true"}]},
        "plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "true"}]},
    },
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with real.running(LAB_LIMIT, UNUSED, images.images) as running:
        yield running


@pytest.fixture
def charts(tmp_path: Path) -> Path:
    return images.charts(tmp_path / "charts")


@pytest.fixture
def stack(lab: Lab, charts: Path) -> Iterator[Stack]:
    """Yield a project without a stack file."""
    with project(lab, charts) as made:
        made.environment["CONTEXT"] = lab.plane.context
        yield made


def policy(lab: Lab) -> Json:
    found: Json = lab.request("GET", POLICY)
    return found


def ready(lab: Lab) -> tuple[str, int]:
    """Return the state of the ClusterPolicy, and the number of nodes whose validator is ready.

    Before the operator's DaemonSets have pods, it calls the policy ready (v24.3.0,
    controllers/object_controls.go, isDaemonSetReady).
    """
    sets = {item["metadata"]["name"]: item for item in lab.request("GET", DAEMON_SETS)["items"]}
    validated = sets.get(VALIDATOR, {}).get("status", {}).get("numberReady", 0)
    return str(policy(lab).get("status", {}).get("state")), validated


def daemon_sets(lab: Lab) -> dict[str, tuple[str, int]]:
    """Return UID and generation of each DaemonSet that the operator created."""
    found = (item["metadata"] for item in lab.request("GET", DAEMON_SETS)["items"])
    return {meta["name"]: (meta["uid"], meta["generation"]) for meta in found}


def goes_on(lab: Lab) -> tuple[Json, dict[str, tuple[str, int]], Json]:
    """Return what the take-over must leave as it is: policy, DaemonSets and the operator itself."""
    found = policy(lab)
    path = f"/apis/apps/v1/namespaces/{SPACE}/deployments/gpu-operator"
    deployment = lab.request("GET", path)
    kept = {key: found["metadata"][key] for key in ("uid", "generation", "labels", "annotations")}
    return {**kept, "spec": found["spec"]}, daemon_sets(lab), deployment["spec"]


def validated_by_the_operator(lab: Lab) -> None:
    """Check that the operator's validator ran its programs on each real node."""
    pods = lab.request("GET", f"/api/v1/namespaces/{SPACE}/pods")["items"]
    for app in ("nvidia-cuda-validator", "nvidia-device-plugin-validator"):
        ended = [
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["metadata"]["labels"].get("app") == app and pod["status"]["phase"] == "Succeeded"
        ]
        assert sorted(ended) == sorted(REAL)
    for name in REAL:
        made = {path.name for path in (lab.nodes[name].root / "run/nvidia/validations").iterdir()}
        assert {"host-driver-ready", "toolkit-ready", "cuda-ready", "plugin-ready"} <= made


@pytest.mark.clusters("real", "operator")
def test_real_kubelets_run_an_adopted_operator_on(
    lab: Lab, stack: Stack, charts: Path, tmp_path: Path
) -> None:
    helm = Helm(tmp_path / "helm", lab.plane.kubeconfig)
    try:
        helm.install(RELEASE, charts / images.CHART, VALUES, SPACE)
    finally:
        helm.close()
    lab.until("operator", lambda: ready(lab), lambda found: found == READY, READY_LIMIT)
    validated_by_the_operator(lab)
    before = goes_on(lab)

    taken_over_and_handed_back(lab, stack, SPACE)

    assert goes_on(lab) == before
    assert ready(lab) == READY
    releases = lab.request("GET", f"/api/v1/namespaces/{SPACE}/secrets", labelSelector="owner=helm")
    labels = [item["metadata"]["labels"] for item in releases["items"]]
    assert [each["name"] for each in labels if each["status"] == "deployed"] == [RELEASE]

    # The operator still works: it creates again what somebody deletes.
    pods = lives(lab, SPACE)
    old, _ = daemon_sets(lab)[WITHOUT_PODS]
    lab.request("DELETE", f"{DAEMON_SETS}/{WITHOUT_PODS}")
    lab.until(
        f"DaemonSet {WITHOUT_PODS}",
        lambda: daemon_sets(lab).get(WITHOUT_PODS, (old, 0))[0],
        lambda uid: uid != old,
    )
    assert lives(lab, SPACE) == pods
    assert all(lab.offered(name)["nvidia.com/gpu"] for name in ALL)
