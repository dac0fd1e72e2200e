"""Device plugin and GPU Operator by the real engine on the embedded cluster, from both charts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import snapshot
from tests.e2e.project import Project, started

from .chart_folders import FOLDERS, STAND_INS

pytestmark = pytest.mark.full

Json = dict[str, Any]
#: Seconds for any one command: the real charts bring some thirty objects.
LIMIT = 900
CREDENTIALS = '{"auths": {"registry.example.com": {"auth": "Y2FuYXJ5OmNhbmFyeQ=="}}}'


@pytest.fixture(scope="module", params=FOLDERS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A project on the stand-ins or on the real charts, its cluster started, its stack not up."""
    folder: Path = request.param
    stack = f"live-{os.getpid()}-{'stand-ins' if folder == STAND_INS else 'real'}"
    project = Project.make(tmp_path_factory.mktemp("live"), stack)
    project.environment["GPU_CHARTS"] = str(folder)
    project.write(declared(stack, platform="device-plugin"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.e2e.project.LIMIT", LIMIT)
        with started(project):
            yield project


def declared(stack: str, **sections: Any) -> Json:
    return {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{stack}"},
        "validation": {"timeoutSeconds": 180},
        "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
        **sections,
    }


def allocatable(project: Project, node: str) -> dict[str, str]:
    """What a node offers; of a plugin that is gone the kubelet keeps the name, with 0."""
    found = project.request("GET", f"nodes/{node}")["status"]["allocatable"]
    return {
        name: value
        for name, value in found.items()
        if name.startswith("nvidia.com/") and value != "0"
    }


def changed(project: Project) -> int:
    """Resources that `make up` changed."""
    return int(project.up().split(", ")[1].split()[0])


def destroyed(project: Project, before: dict[str, Json]) -> None:
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    deadline = time.monotonic() + 60
    while (found := snapshot.cluster(project)) != before and time.monotonic() < deadline:
        time.sleep(0.5)
    assert found.keys() == before.keys()
    assert found == before


SLICED = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
RENAMED = {
    "sharing": {
        "mps": {"renameByDefault": True, "resources": [{"name": "gpu", "replicas": 2}]},
    }
}


def plugin(stack: str) -> Json:
    """Three pools: shared in turns, shared by MPS under another name, one with a GPU left out."""
    label = "nvidia.com/device-plugin.config"
    return declared(
        stack,
        platform="device-plugin",
        runtime={"defaultRuntime": "runc"},
        pools=[
            {"name": "sliced", "nodes": ["gpu-1"], "gpusPerNode": 8, "labels": {label: "sliced"}},
            {"name": "mps", "nodes": ["gpu-2"], "gpusPerNode": 8, "labels": {label: "mps"}},
            {
                "name": "whole",
                "nodes": ["gpu-[3-4]"],
                "gpusPerNode": 8,
                "unhealthyDevices": {"gpu-3": {"index": [3, 5]}},
            },
        ],
        devicePlugin={
            "configs": {"sliced": SLICED, "mps": RENAMED},
            "gfd": True,
            "resources": {"limits": {"memory": "100Mi"}},
            "extraValues": {"podAnnotations": {"example.com/owner": "platform"}},
        },
    )


def test_each_node_offers_what_its_own_configuration_says(live: Project) -> None:
    before = snapshot.cluster(live)
    live.write(plugin(live.stack))
    assert live.up().startswith("up: 30 of 30 GPUs validated")
    assert allocatable(live, "gpu-1") == {"nvidia.com/gpu": "32"}
    assert allocatable(live, "gpu-2") == {"nvidia.com/gpu.shared": "16"}
    assert allocatable(live, "gpu-3") == {"nvidia.com/gpu": "6"}
    assert allocatable(live, "gpu-4") == {"nvidia.com/gpu": "8"}
    output = json.loads(live.pulumi("stack", "output", "--json").stdout)
    assert output["unhealthyDevices"] == {"gpu-3": [3, 5]}
    assert {node["name"]: node["pool"] for node in output["nodes"]} == {
        "gpu-1": "sliced",
        "gpu-2": "mps",
        "gpu-3": "whole",
        "gpu-4": "whole",
    }
    assert changed(live) == 0
    _a_gpu_that_is_left_out_moves_the_plugin_of_its_node_only(live)
    destroyed(live, before)


def plugin_pods(project: Project) -> dict[str, str]:
    """The device plugin's pods: uid by node."""
    path = "namespaces/nvidia-device-plugin/pods"
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["uid"]
        for pod in project.request("GET", path)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["name"] == "nvidia-device-plugin-ctr" for c in pod["spec"]["containers"])
    }


def _a_gpu_that_is_left_out_moves_the_plugin_of_its_node_only(project: Project) -> None:
    old = plugin_pods(project)
    assert set(old) == {"gpu-1", "gpu-2", "gpu-3", "gpu-4"}

    def heal(cluster: Json) -> None:
        del cluster["pools"][2]["unhealthyDevices"]["gpu-3"]["index"][0]

    project.edit(heal)
    assert project.up().startswith("up: 31 of 31 GPUs validated")
    assert allocatable(project, "gpu-3") == {"nvidia.com/gpu": "7"}
    new = plugin_pods(project)
    assert {node for node in old if old[node] != new[node]} == {"gpu-3"}


def operator(stack: str) -> Json:
    """MIG on two nodes, a driver by NVIDIADriver, configurations, a registry with credentials."""
    return declared(
        stack,
        platform="gpu-operator",
        driver={"source": "operator", "resource": True, "version": "595.91.07"},
        runtime={"cdi": True},
        registry={"mirror": "registry.example.com/gpu", "pullSecret": "registry-credentials"},
        pools=[
            {
                "name": "divided",
                "nodes": ["gpu-[1-2]"],
                "gpusPerNode": 8,
                "mig": {"1g.5gb": 2, "2g.10gb": 2},
            },
            {"name": "whole", "nodes": ["gpu-3"], "gpusPerNode": 8},
            {
                "name": "off",
                "nodes": ["gpu-4"],
                "gpusPerNode": 0,
                "labels": {"nvidia.com/gpu.deploy.operands": "false"},
            },
        ],
        gpuOperator={
            "migStrategy": "mixed",
            "upgrade": {"parallel": 2, "drain": {"deleteEmptyDir": True}},
            "devicePlugin": {"config": {}},
            "extraValues": {"daemonsets": {"labels": {"example.com/owner": "platform"}}},
        },
    )


def test_the_operator_divides_gpus_and_leaves_what_is_off_alone(live: Project) -> None:
    live.write(operator(live.stack))
    begun = live.command("start")  # the simulator takes the GPUs out of a node that has none
    assert begun.returncode == 0, begun.stdout
    before = snapshot.cluster(live)
    path = live.root / "registry.json"
    path.write_text(CREDENTIALS)
    secret = f'pulumi config set --secret gpu-cluster:registryCredentials < "{path}"'
    live.command("preview")  # makes the stack
    _shell(live, secret)
    assert live.up().startswith("up: 24 of 24 GPUs validated")
    parts = {"nvidia.com/mig-1g.5gb": "16", "nvidia.com/mig-2g.10gb": "16"}
    assert allocatable(live, "gpu-1") == allocatable(live, "gpu-2") == parts
    assert allocatable(live, "gpu-3") == {"nvidia.com/gpu": "8"}
    assert allocatable(live, "gpu-4") == {}
    labels = live.request("GET", "nodes/gpu-4")["metadata"]["labels"]
    assert [key for key in labels if key.startswith("nvidia.com/gpu.deploy.")] == [
        "nvidia.com/gpu.deploy.operands"
    ]
    for namespace in ("gpu-operator", "gpu-validation"):
        found = live.request("GET", f"namespaces/{namespace}/secrets/registry-credentials")
        assert found["type"] == "kubernetes.io/dockerconfigjson"
    assert "Y2FuYXJ5" not in live.checkpoint()
    assert changed(live) == 0
    destroyed(live, before)


def _shell(project: Project, line: str) -> None:
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=project.root,
        env={**project.shell_environment()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
