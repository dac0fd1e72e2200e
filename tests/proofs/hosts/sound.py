"""A declared host, and facts of a host for which an inspection reports no findings."""

from __future__ import annotations

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster_lab.simulator import hosts as simulated


def declared(**driver: str) -> tuple[Cluster, Host]:
    return declared_with(driver=driver)


def declared_with(**sections: object) -> tuple[Cluster, Host]:
    cluster = load(
        {
            "version": "v1",
            "kubernetes": {"context": "test"},
            "platform": "device-plugin",
            "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            "hosts": [
                {
                    "name": "gpu-1",
                    "address": "127.0.0.1",
                    "hostKey": simulated.host_public_key("gpu-1"),
                }
            ],
            **sections,
        }
    )
    return cluster, cluster.hosts[0]


GOOD = HostFacts(
    os="debian",
    os_version="12",
    arch="x86_64",
    kernel="6.1.0-18-amd64",
    nvidia_devices=8,
    driver="595.91.07",
    containerd="1.6.20~ds1",
    toolkit="1.20.0",
    cgroup=2,
    disk_free_mib=50_000,
)
