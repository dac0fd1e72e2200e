"""Tests that `pulumi up` makes a cluster with 16 validated GPUs of two bare Debian hosts.

`pulumi destroy` then removes the cluster and everything on the hosts.

Real parts: Pulumi, apt, containerd, runc, the scripts over SSH, API server, etcd, controller
manager and scheduler. Fake parts: kubeadm returns the kubeconfig of the embedded control plane and
creates no control plane (`test_real_kubeadm.py` runs the real kubeadm); the class `Register`
creates the Nodes, as kubelets would; kwok simulates these Nodes. The network add-on is a chart with
one object and no pods.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands.environment import local_backend
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.loading.loader import load
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import catalogue, namespaced, rootfs
from tests.proofs.e2e.project import Project
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Declared, Running, differences, free_port, temporary_cluster
from tests.simulated import simulate

pytestmark = pytest.mark.full

SEEN = "/run/simulated-kubeadm"
ROLES = {"cp-1": "gpu-control-plane", "gpu-1": "gpu-worker"}
CONTEXT = "made-here"
CHART = {
    "Chart.yaml": "{apiVersion: v2, name: network, version: 0.1.0}\n",
    "values.yaml": "{subnet: none}\n",
    "templates/network.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: network, namespace: {{ .Release.Namespace }}}
data: {subnet: {{ .Values.subnet }}}
""",
}
SUBNET = "10.244.0.0/16"
LEFT = ("upper/usr", "upper/opt", "opt")
"""Folders that dpkg leaves behind, and overlay whiteouts of packages that the fixture removed."""

Json = dict[str, Any]


class Register(threading.Thread):
    """Thread that creates each host's Node with kubelet credentials, as the kubelet would do."""

    def __init__(self, cluster: str, hosts: dict[str, Running], document: Json) -> None:
        super().__init__(daemon=True)
        self._cluster, self._hosts, self._document = cluster, hosts, document
        self._joined: set[str] = set()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.2):
            for name, host in self._hosts.items():
                if name not in self._joined and host.exists("/etc/kubernetes/kubelet.conf"):
                    self._joined.add(name)
                    self.settle()

    def settle(self) -> simulator.Embedded:
        """Add the Nodes of the hosts that have joined to the embedded cluster."""
        hosts = [host for host in self._document["hosts"] if host["name"] in self._joined]
        pool = {**self._document["pools"][0], "nodes": sorted(self._joined)}
        if not hosts:
            pool |= {"nodes": ["none"], "gpusPerNode": 0}
        sections = {key: self._document[key] for key in ("version", "kubernetes", "platform")}
        return simulate(self._cluster, load({**sections, "pools": [pool], "hosts": hosts}))


@dataclass
class Site:
    """Two bare hosts, a control plane without nodes, and a project that declares these hosts."""

    project: Project
    hosts: dict[str, Running]
    kubeconfig: Path
    before: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with temporary_cluster() as name:
        if reason := namespaced.reason_against(name):
            pytest.skip(f"hosts in namespaces: {reason}")
        packages = [*catalogue.containerd(rootfs.debian_root(lambda _: None))]
        packages += catalogue.kubernetes("1.34.4")
        with software.serving("debian", packages) as repository:
            try:
                yield from made(name, tmp_path_factory.mktemp("bare"), repository)
            finally:
                simulator.down(name)


def made(name: str, folder: Path, repository: Json) -> Iterator[Site]:
    key, public = simulated.client_key(name)
    wanted = [Declared(host, free_port(), role) for host, role in ROLES.items()]
    simulated.up(name, wanted, public, simulated.HostSettings(mode="namespaces"))
    hosts = {host.name: Running(name, host, key.read_text(), limit=300) for host in wanted}
    for host in hosts.values():
        done = host.run(
            "systemctl stop containerd; dpkg -P containerd runc && rm -rf /var/lib/containerd"
        )
        assert done.status == 0, done
    kubeconfig = folder / "kubeconfig"
    project = Project.make(folder, "made")
    for path, text in CHART.items():
        (project.root / "network" / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / "network" / path).write_text(text)
    project.environment |= {
        "KUBECONFIG": str(kubeconfig),
        "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key),
        "PULUMI_BACKEND_URL": local_backend(folder / "state"),
        "PULUMI_CONFIG_PASSPHRASE": "of a stack that goes with the test",
    }
    before = {host: software.lasting(machine) for host, machine in hosts.items()}
    document = declared(wanted, repository)
    register = Register(name, hosts, document)
    control_plane = register.settle().kubeconfig.read_text()
    server = yaml.safe_load(control_plane)["clusters"][0]["cluster"]["server"]
    document["kubernetesPackages"]["init"]["endpoint"] = server.removeprefix("https://")
    project.write(document)
    hosts["cp-1"].write(f"{SEEN}/admin.conf", control_plane)
    register.start()
    try:
        yield Site(project, hosts, kubeconfig, before)
    finally:
        register.done.set()
        register.join()


def declared(hosts: list[Declared], repository: Json) -> Json:
    chart = {"chart": "network", "version": "0.1.0", "repository": "./network"}
    chart["values"] = {"subnet": SUBNET}
    return {
        "version": "v1",
        "kubernetes": {"context": CONTEXT},
        "platform": "device-plugin",
        "validation": {"timeoutSeconds": 60},
        "pools": [{"name": "all", "nodes": list(ROLES), "gpusPerNode": 8, "taints": []}],
        "driver": {"source": "preinstalled"},
        "runtime": {"install": {"packages": ["containerd"], "repository": repository}},
        "packages": {"remove": True},
        "kubernetesPackages": {
            "version": "1.34.4",
            "repository": repository,
            "init": {"endpoint": "127.0.0.1:6443", "network": {"chart": chart}},
        },
        "hosts": [
            {
                "name": host.name,
                "role": host.role,
                "address": host.address,
                "port": host.port,
                "hostKey": host.host_key,
            }
            for host in hosts
        ],
    }


def network(site: Site) -> Json | None:
    """Return the object that the network add-on's chart creates, or None if it doesn't exist."""

    async def ask() -> Json | None:
        async with connect(CONTEXT) as client:
            return await client.find("namespaces/kube-system/configmaps/network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(site.kubeconfig))
        return asyncio.run(ask())


def last(site: Site, command: str) -> str:
    done = site.project.command(command)

    assert done.returncode == 0, done.stdout
    return done.stdout.strip().splitlines()[-1]


def test_the_preview_says_what_it_can_t_know_and_changes_nothing(site: Site) -> None:
    done = site.project.command("preview")
    assert done.returncode == 0, done.stdout
    assert "the preview can't know its token and its kubeconfig" in done.stdout
    assert not site.kubeconfig.exists()
    for name, host in site.hosts.items():
        assert differences(site.before[name], software.lasting(host)) == {}


def test_one_up_counts_the_gpus_of_hosts_that_were_bare(site: Site) -> None:
    done = site.project.command("up")
    assert done.returncode == 0, done.stdout
    assert "up: 16 of 16 GPUs simulated" in done.stdout
    made = network(site)
    assert made is not None
    assert made["data"] == {"subnet": SUBNET}
    for host in site.hosts.values():
        assert host.run("ctr version && systemctl is-active kubelet").status == 0
    assert site.kubeconfig.stat().st_mode & 0o777 == 0o600
    token = site.hosts["cp-1"].read("/var/lib/gpu-cluster/cluster/token").strip()
    assert token not in done.stdout
    assert token not in site.project.checkpoint()
    assert "client-key-data" not in site.project.checkpoint()
    joined = site.hosts["gpu-1"].read(f"{SEEN}/configuration")
    assert token in joined


def test_the_second_up_changes_nothing(site: Site) -> None:
    assert "16 of 16 GPUs simulated, 0 resources changed" in last(site, "up")


def test_a_state_with_the_earlier_name_of_the_control_plane_keeps_it(site: Site) -> None:
    """The engine takes no control plane out of its cluster because the program renamed it."""
    exported = site.project.pulumi("stack", "export", "--stack", site.project.stack)
    assert exported.returncode == 0, exported.stdout
    name = "kubeadm-cluster-member-cp-1"
    assert name in exported.stdout
    state = site.project.root / "state.json"
    state.write_text(exported.stdout.replace(name, "kubeadm-cluster-init-cp-1"))
    imported = site.project.pulumi("stack", "import", "--file", str(state))
    assert imported.returncode == 0, imported.stdout
    host = site.hosts["cp-1"]
    effects = "/var/lib/gpu-cluster/cluster/effects"
    host.write(effects, re.sub("^member ", "init ", host.read(effects), flags=re.MULTILINE))
    before = host.read("/etc/kubernetes/admin.conf")
    assert "16 of 16 GPUs simulated" in last(site, "up")
    assert host.read("/etc/kubernetes/admin.conf") == before
    assert name in site.project.checkpoint()
    assert "16 of 16 GPUs simulated, 0 resources changed" in last(site, "up")


def test_another_machine_gets_the_context_from_the_state(site: Site) -> None:
    site.kubeconfig.unlink()
    assert "16 of 16 GPUs simulated, 1 resources changed" in last(site, "up")
    assert "16 of 16 GPUs simulated, 0 resources changed" in last(site, "up")


def test_destroying_needs_declared_consent_and_leaves_the_hosts_as_before(site: Site) -> None:
    refused = site.project.command("destroy")
    assert refused.returncode == 1, refused.stdout
    assert "protect" in refused.stdout
    assert site.hosts["cp-1"].exists("/etc/kubernetes/admin.conf")
    assert "16 of 16 GPUs" in last(site, "up")

    def consent(cluster: Json) -> None:
        cluster["kubernetesPackages"]["init"]["protect"] = False

    site.project.edit(consent)
    assert "16 of 16 GPUs" in last(site, "up")
    last(site, "destroy")
    assert not site.kubeconfig.exists()
    for name, host in site.hosts.items():
        left = differences(site.before[name], software.lasting(host))
        assert {path for path in left if not path.startswith(LEFT)} == set()
