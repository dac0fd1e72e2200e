"""A stack adopts and later leaves a device plugin on real kubelets, without restarting it.

The device plugin, its chart, kubelet, containerd and the NVIDIA Container Toolkit are real; they
run on a mock of NVML.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.helm import Helm
from lab.real import build, objects, parts
from lab.real import lab as real
from lab.real.lab import Lab
from lab.real.stack import Stack, project
from tests.proofs.real.taking_over import LAB_LIMIT, PRIVILEGED, taken_over_and_handed_back

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

Json = dict[str, Any]
SPACE = "kube-system"
UNUSED = ("nfd", "operator")
STATIC: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": SPACE},
    "spec": {
        "selector": {"matchLabels": {"name": "nvidia-device-plugin-ds"}},
        "template": {
            "metadata": {"labels": {"name": "nvidia-device-plugin-ds"}},
            "spec": {
                "nodeSelector": objects.GPU_NODES,
                "tolerations": [{"operator": "Exists"}],
                "priorityClassName": "system-node-critical",
                "containers": [
                    {
                        "name": "nvidia-device-plugin-ctr",
                        "image": f"nvcr.io/nvidia/k8s-device-plugin:v{parts.PLUGIN}",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["nvidia-device-plugin"],
                        "env": [
                            {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"},
                            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
                        ],
                        "securityContext": PRIVILEGED,
                        "volumeMounts": [
                            {"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}
                        ],
                    }
                ],
                "volumes": [
                    {
                        "name": "plugins",
                        "hostPath": {"path": "/var/lib/kubelet/device-plugins"},
                    }
                ],
            },
        },
    },
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with real.running(LAB_LIMIT, UNUSED) as running:
        yield running


@pytest.fixture
def stack(lab: Lab) -> Iterator[Stack]:
    """Yield a project without a stack file; afterwards delete all device plugins."""
    with project(lab) as made:
        made.environment["CONTEXT"] = lab.plane.context
        yield made
    sets = f"/apis/apps/v1/namespaces/{SPACE}/daemonsets"
    for item in lab.request("GET", sets)["items"]:
        lab.request("DELETE", f"{sets}/{item['metadata']['name']}")
    pods = f"/api/v1/namespaces/{SPACE}/pods"
    lab.until("plugins", lambda: lab.request("GET", pods)["items"], lambda items: not items)


@pytest.mark.clusters("real", "release")
def test_real_kubelets_run_an_adopted_release_on(lab: Lab, stack: Stack, tmp_path: Path) -> None:
    values = {
        "deviceListStrategy": "volume-mounts",
        "securityContext": PRIVILEGED,
        "tolerations": [{"operator": "Exists"}],
    }
    helm = Helm(tmp_path, lab.plane.kubeconfig)
    try:
        helm.install("nvdp", build.charts() / "nvidia-device-plugin", values, SPACE)
    finally:
        helm.close()
    taken_over_and_handed_back(lab, stack, SPACE)


@pytest.mark.clusters("real", "manifest")
def test_real_kubelets_run_an_adopted_manifest_on(lab: Lab, stack: Stack) -> None:
    lab.request("POST", f"/apis/apps/v1/namespaces/{SPACE}/daemonsets", STATIC)
    taken_over_and_handed_back(lab, stack, SPACE)
