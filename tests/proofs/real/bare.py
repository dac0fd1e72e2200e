"""Bare Debian hosts, by default two, and a project that creates a cluster on these hosts.

NVML and systemctl are mocks (`docs/explanation/real-parts.md`). The kubeadm addons CoreDNS and
kube-proxy are disabled, because they need images from a registry.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands.environment import local_backend
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import namespaced, rootfs
from lab.real import build, parts
from lab.real.bare import image_registry, network, packages
from lab.real.bare.machine import Machine
from lab.real.bare.site import REGISTRY, REGISTRY_PORT, Site, running
from lab.real.mock import Mock
from tests.proofs.e2e.project import Project
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Declared, Running, differences, temporary_cluster

MARKS = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
    pytest.mark.skipif(
        Path("/sys/fs/cgroup/cgroup.procs").exists(), reason="control groups of version 1 alone"
    ),
]
"""Pytest markers of each test module that uses these hosts."""
ROLES = {"cp-1": "gpu-control-plane", "gpu-1": "gpu-worker"}
CONTEXT = "made-here"
IGNORED = ("SystemVerification",)
"""kubeadm's names of the preflight checks that a simulated host can't pass."""
KUBELET = {
    "failCgroupV1": False,
    "failSwapOn": False,
    "enforceNodeAllocatable": [],
    "makeIPTablesUtilChains": False,
    "localStorageCapacityIsolation": False,
    "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"},
    "imageGCHighThresholdPercent": 100,
}
"""Settings of the kubelet that disable what Linux namespaces can't provide."""
LIMIT = 1500
COPIED = "upper/usr/libexec"
"""Folder of the host's root that the overlay still lists after a file in it was created."""

Json = dict[str, Any]


@dataclass
class Stack:
    """Bare hosts, and a project that declares them as a cluster."""

    site: Site
    project: Project
    kubeconfig: Path
    hosts: dict[str, Running]
    before: dict[str, dict[str, str]]

    def kubectl(self, arguments: str) -> Json:
        """Run the real kubectl and return its JSON output."""
        answer: Json = json.loads(self.run_kubectl(f"{arguments} -o json"))
        return answer

    def run_kubectl(self, arguments: str) -> str:
        """Run the real kubectl and return its output."""
        program = build.build_node()["kubectl"]
        return self.site.run(f"{program} --kubeconfig {self.kubeconfig} {arguments}")

    def tagged(self, version: str) -> dict[str, str]:
        """Return the images that a Kubernetes version's static pods must have, by pod name."""
        kubeadm = build.build_kubernetes(version)["kubeadm"]
        tags = image_registry.tags(kubeadm, version)
        return {name: f"{REGISTRY}/{name}:{tags[name]}" for name in image_registry.STATIC_PODS}

    def gpus(self) -> dict[str, str]:
        """Return the number of GPUs that each node advertises."""
        return {
            node["metadata"]["name"]: node["status"]["allocatable"]["nvidia.com/gpu"]
            for node in self.kubectl("get nodes")["items"]
        }

    def static_pods(self) -> dict[str, str]:
        """Return the images of the running static pods on the control-plane host, by pod name."""
        pods = self.kubectl("get pods -n kube-system")["items"]
        return {
            pod["metadata"]["name"].removesuffix("-cp-1"): pod["spec"]["containers"][0]["image"]
            for pod in pods
            if pod["spec"].get("nodeName") == "cp-1" and pod["status"]["phase"] == "Running"
        }

    def down(self) -> None:
        """Run `gpu-cluster destroy`.

        Check that the hosts then have the same files as before the first `up`.
        """
        done = self.project.command("destroy")
        assert done.returncode == 0, done.stdout
        assert not self.kubeconfig.exists()
        for name, host in self.hosts.items():
            left = differences(self.before[name], software.lasting(host))
            assert left.keys() <= {COPIED}, f"{name}: {left}"


@contextlib.contextmanager
def standing(
    folder: Path,
    version: str = parts.KUBELET,
    roles: Mapping[str, str] = ROLES,
    endpoint: str = "",
    kube_vip: bool = False,
) -> Iterator[Stack]:
    """Start the hosts, before anything is installed, and yield them with the project.

    Args:
        folder: Folder of the project.
        version: Kubernetes version that the project declares.
        roles: Role of each host, by name; the first becomes a control plane first.
        endpoint: Host and port of the API server. Empty: those of the first host.
        kube_vip: Whether the project declares that kube-vip holds the endpoint's address.
    """
    addresses = {name: f"198.18.7.{number}" for number, name in enumerate(roles, 1)}
    endpoint = endpoint or f"{next(iter(addresses.values()))}:6443"
    with temporary_cluster() as name:
        if reason := namespaced.reason_against(name):
            pytest.skip(f"hosts in namespaces: {reason}")
        programs = build.build("mock", "plugin", "toolkit") | build.build_node()
        programs |= build.build_etcd_tools() | (build.build_kube_vip() if kube_vip else {})
        ours = {
            tool: found.path
            for tool, found in toolchain.ensure(*image_registry.STATIC_PODS).items()
        }
        every = {parts.KUBELET: programs | ours}
        if version != parts.KUBELET:
            every[version] = {**ours, **build.build_kubernetes(version)}
        root = rootfs.debian_root(lambda _: None)
        _, public = simulated.client_key(name)
        machines = [Machine(name, host, addresses[host], Mock(host)) for host in roles]
        with (
            image_registry.served(image_registry.images(programs, every)) as images,
            software.serving("debian", packages.packages(root, programs, every)) as repository,
            running(name, machines, programs, public) as site,
        ):
            site.serve(REGISTRY_PORT, images)
            port = int(repository["apt"]["url"].rpartition(":")[2])
            site.serve(port, port)
            stack_file = declared(repository, version, site, roles, endpoint)
            if kube_vip:
                image = f"{REGISTRY}/{image_registry.KUBE_VIP}"
                stack_file["kubernetesPackages"]["init"]["kubeVip"] = {"image": image}
            yield made(name, folder, site, stack_file)


def made(name: str, folder: Path, site: Site, stack_file: Json) -> Stack:
    """Create the project's copy, with the stack file in it."""
    key, _ = simulated.client_key(name)
    project = Project.make(folder, "made")
    project.around, project.limit = site.at_the_desk, LIMIT
    service = "10.96.0.1"  # First address of kubeadm's default service subnet.
    endpoint = stack_file["kubernetesPackages"]["init"]["endpoint"]
    (project.root / "cni.yaml").write_text(network.manifests(REGISTRY, service, endpoint))
    kubeconfig = folder / "kubeconfig"
    project.environment |= {
        "KUBECONFIG": str(kubeconfig),
        "GPU_CHARTS": str(build.charts()),
        "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
        "PULUMI_BACKEND_URL": local_backend(folder / "state"),
        "PULUMI_CONFIG_PASSPHRASE": "of a stack that goes with the test",
    }
    project.write(stack_file)
    wanted = [
        Declared(host["name"], 22, host["role"], host["address"]) for host in stack_file["hosts"]
    ]
    hosts = {host.name: Running(name, host, key.read_text()) for host in wanted}
    before = {host: software.lasting(running) for host, running in hosts.items()}
    return Stack(site, project, kubeconfig, hosts, before)


def declared(
    repository: Json, version: str, site: Site, roles: Mapping[str, str], endpoint: str
) -> Json:
    """Return the configuration in the stack file, which declares the hosts as a cluster."""
    addresses = {machine.name: machine.address for machine in site.machines}
    with_gpus = [name for name, role in roles.items() if role.startswith("gpu-")]
    members = [name for name, role in roles.items() if role.endswith("control-plane")]
    one = {"advertiseAddress": addresses[members[0]]} if len(members) == 1 else {}
    return {
        "version": "v1",
        "kubernetes": {"context": CONTEXT},
        "platform": "device-plugin",
        "devicePlugin": {"version": parts.PLUGIN},
        "registry": {"mirror": REGISTRY},
        "validation": {"timeoutSeconds": 300},
        "pools": [{"name": "all", "nodes": with_gpus, "gpusPerNode": 8, "taints": []}],
        "driver": {"source": "preinstalled"},
        "packages": {"remove": True},
        "runtime": {
            "systemdCgroup": False,
            "install": {
                "packages": ["containerd"],
                "repository": repository,
                "sandboxImage": f"{REGISTRY}/{image_registry.SANDBOX}",
            },
            "toolkit": {"source": "package", "apt": repository["apt"], "removePackages": True},
        },
        "kubernetesPackages": {
            "version": version,
            "repository": repository,
            "init": {
                "endpoint": endpoint,
                **one,
                "network": {"manifest": "cni.yaml"},
                "protect": False,
                "clusterConfiguration": {
                    "imageRepository": REGISTRY,
                    "dns": {"disabled": True},
                    "proxy": {"disabled": True},
                },
                "kubeletConfiguration": KUBELET,
                "nodeRegistration": {"ignorePreflightErrors": list(IGNORED)},
            },
        },
        "hosts": [
            {
                "name": name,
                "role": role,
                "address": addresses[name],
                "hostKey": simulated.host_public_key(name),
            }
            for name, role in roles.items()
        ],
    }
