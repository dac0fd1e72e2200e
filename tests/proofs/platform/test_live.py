"""Device plugin and GPU Operator on the embedded cluster, with fake and real charts."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, started
from tests.proofs.platform.chart_folders import FOLDERS

pytestmark = pytest.mark.full

Json = dict[str, Any]
# Seconds that one command may run. A real chart creates about thirty objects.
LIMIT = 900
CREDENTIALS = '{"auths": {"registry.example.com": {"auth": "Y2FuYXJ5OmNhbmFyeQ=="}}}'


@pytest.fixture(scope="module", params=FOLDERS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a project with fake or real charts and a running cluster, before the first `up`."""
    folder: Path = request.param
    stack = own_name("live")
    project = Project.make(tmp_path_factory.mktemp("live"), stack)
    project.environment["GPU_CHARTS"] = str(folder)
    project.write(declared(stack, platform="device-plugin"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.proofs.e2e.project.LIMIT", LIMIT)
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
    """Return a node's allocatable NVIDIA resources, except those with the amount 0.

    A kubelet keeps the resource of a removed plugin with the amount 0.
    """
    amounts = project.request("GET", f"nodes/{node}")["status"]["allocatable"]
    return {
        name: value
        for name, value in amounts.items()
        if name.startswith("nvidia.com/") and value != "0"
    }


def changed(project: Project) -> int:
    """Run `gpu-cluster up` and return the number of changed resources."""
    return int(project.up().split(", ")[1].split()[0])


def destroyed(project: Project, before: dict[str, Json]) -> None:
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    deadline = time.monotonic() + 60
    while (left := snapshot.cluster(project)) != before and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left.keys() == before.keys()
    assert left == before


SLICED = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
RENAMED = {
    "sharing": {
        "mps": {"renameByDefault": True, "resources": [{"name": "gpu", "replicas": 2}]},
    }
}


def plugin(stack: str) -> Json:
    """Return a configuration with three pools: time-slicing, MPS, and an excluded GPU."""
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
    assert live.up().startswith("up: 30 of 30 GPUs simulated")
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
    """Return the UID of the device plugin pod of each node, by node name."""
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
    assert project.up().startswith("up: 31 of 31 GPUs simulated")
    assert allocatable(project, "gpu-3") == {"nvidia.com/gpu": "7"}
    new = plugin_pods(project)
    assert {node for node in old if old[node] != new[node]} == {"gpu-3"}


def operator(stack: str) -> Json:
    """Return a configuration with MIG, an NVIDIADriver object and a private registry."""
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
    # `gpu-cluster start` makes the simulator remove the GPUs of the node that declares no GPUs.
    begun = live.command("start")
    assert begun.returncode == 0, begun.stdout
    before = snapshot.cluster(live)
    path = live.root / "registry.json"
    path.write_text(CREDENTIALS)
    secret = f'pulumi config set --secret gpu-cluster:registryCredentials < "{path}"'
    live.command("preview")  # This preview creates the stack, without which `pulumi config` fails.
    _shell(live, secret)
    assert live.up().startswith("up: 24 of 24 GPUs simulated")
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


GUEST_VERSION = "580.95.05"
TOKEN = "bGljZW5jZS1jYW5hcnk"


@contextlib.contextmanager
def listening() -> Iterator[str]:
    """Open a TCP port that stands in for a license server or registry; yield host and port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "{}:{}".format(*server.getsockname())


def guests(stack: str, distribution: str, server: str, registry: str) -> Json:
    """Return a configuration of vGPU nodes on a Rancher distribution, with a guest driver image."""
    return declared(
        stack,
        platform="gpu-operator",
        driver={
            "source": "operator",
            "version": GUEST_VERSION,
            "imageRepository": f"{registry}/guests",
            "image": "vgpu-guest-driver",
        },
        pools=[{"name": "guests", "nodes": ["gpu-[1-4]"], "gpusPerNode": 1}],
        gpuOperator={
            "toolkit": True,
            "distribution": distribution,
            "vgpu": {
                "hostDriver": "19.2",
                "licenseSecret": "licensing-config",
                "licenseServer": server,
                "feature": "compute",
            },
        },
    )


def variables(spec: Json) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in spec["env"]}


@pytest.mark.parametrize("distribution", ["k3s", "rke2"])
def test_guests_with_vgpus_get_driver_licence_and_the_runtime_of_their_distribution(
    live: Project, distribution: str
) -> None:
    with listening() as server, listening() as registry:
        live.write(guests(live.stack, distribution, server, registry))
        begun = live.command("start")
        assert begun.returncode == 0, begun.stdout
        before = snapshot.cluster(live)
        advised = live.command("preview")
        assert "pulumi config set --secret gpu-cluster:licenseToken" in advised.stdout
        _shell(live, f"echo {TOKEN} | pulumi config set --secret gpu-cluster:licenseToken")
        assert live.up().startswith("up: 4 of 4 GPUs simulated")
        policy = live.request("GET", "clusterpolicies", base="/apis/nvidia.com")["items"][0]["spec"]
        assert policy["driver"]["repository"] == f"{registry}/guests"
        assert policy["driver"]["licensingConfig"]["secretName"] == "licensing-config"
        assert policy["toolkit"]["enabled"]
        assert variables(policy["toolkit"]) == {
            "RUNTIME_CONFIG_SOURCE": "file",
            "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": "false",
            "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS": "true",
            "CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock",
            "CONTAINERD_CONFIG": (
                f"/var/lib/rancher/{distribution}/agent/etc/containerd/config.toml"
            ),
        }
        secret = live.request("GET", "namespaces/gpu-operator/secrets/licensing-config")["data"]
        assert {key: base64.b64decode(value).decode() for key, value in secret.items()} == {
            "gridd.conf": "FeatureType=4\n",
            "client_configuration_token.tok": TOKEN,
        }
        assert TOKEN not in live.checkpoint()
        assert changed(live) == 0
        destroyed(live, before)
    refused = live.command("up")
    assert refused.returncode != 0
    assert f"licence server {server}" in refused.stdout
    assert f"registry {registry}" in refused.stdout
    assert snapshot.cluster(live) == before


WORKLOAD = "nvidia.com/gpu.workload.config"


def machines(stack: str) -> Json:
    """Return a configuration with containers on three nodes and GPU passthrough on a fourth."""
    return declared(
        stack,
        platform="gpu-operator",
        pools=[
            {"name": "containers", "nodes": ["gpu-[1-3]"], "gpusPerNode": 8},
            {
                "name": "machines",
                "nodes": ["gpu-4"],
                "gpusPerNode": 0,
                "labels": {WORKLOAD: "vm-passthrough"},
            },
        ],
        gpuOperator={"sandbox": {"defaultWorkload": "container", "mode": "kubevirt"}},
    )


def test_nodes_of_virtual_machines_stand_beside_nodes_of_containers(live: Project) -> None:
    live.write(machines(live.stack))
    begun = live.command("start")
    assert begun.returncode == 0, begun.stdout
    before = snapshot.cluster(live)
    assert live.up().startswith("up: 24 of 24 GPUs simulated")
    policy = live.request("GET", "clusterpolicies", base="/apis/nvidia.com")["items"][0]["spec"]
    sandbox = policy["sandboxWorkloads"]
    assert (sandbox["enabled"], sandbox["defaultWorkload"]) == (True, "container")
    labels = live.request("GET", "nodes/gpu-4")["metadata"]["labels"]
    assert labels[WORKLOAD] == "vm-passthrough"
    assert allocatable(live, "gpu-4") == {}
    assert changed(live) == 0
    destroyed(live, before)


def _shell(project: Project, line: str) -> None:
    done = run_program(
        ["sh", "-c", line], cwd=project.root, env={**project.shell_environment()}, timeout=120
    )
    assert done.returncode == 0, done.stderr
