"""Helpers for the tests of kubeadm: the configuration of a cluster that the stack creates."""

from __future__ import annotations

import re
from typing import Any

from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator import hosts as simulated
from tests.desired_host import desired_host

COPIED = "upper/usr/libexec"
"""Folder of the host's root that the overlay still lists after a file in it was created."""
NETWORK = """mkdir -p /etc/cni/net.d /opt/cni/bin /var/lib/cni/results
echo simulated >/etc/cni/net.d/10-new.conf; echo simulated >/opt/cni/bin/new"""
"""Shell commands that create the files of a network add-on and its first pod, as on real hosts."""
INIT: dict[str, Any] = {"endpoint": "192.0.2.1:6443", "network": {"manifest": "cni.yaml"}}
GATED = {**INIT, "kubeletConfiguration": {"featureGates": {"SidecarContainers": True}}}


def declared(role: str = "control-plane", *, version: str = "1.34.4", **init: Any) -> Cluster:
    """Return the configuration of a cluster that the stack creates with kubeadm, with one host."""
    others = "gpu-1" if role == "gpu-worker" else "other"
    hosts = [{"name": "gpu-1", "address": "127.0.0.1", "role": role}]
    if role != "control-plane":
        hosts.append({"name": "first", "address": "192.0.2.1", "role": "control-plane"})
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "here"},
            "platform": "device-plugin",
            "pools": [{"name": "a", "nodes": [others], "gpusPerNode": 8}],
            "hosts": [{**host, "hostKey": simulated.host_public_key("gpu-1")} for host in hosts],
            "kubernetesPackages": {"version": version, "init": {**INIT, **init}},
        }
    )


def parameters(role: str, **init: Any) -> dict[str, str]:
    """Return the kernel parameters in the script of a host; empty: the script's own."""
    cluster = declared(role, **init)
    host = next(host for host in cluster.hosts if host.name == "gpu-1")
    text = prepare_script(desired_host(cluster, host))
    return dict(re.findall(r'"\$@" ([\w.-]+\.[\w.-]+) (\S+)', text))
