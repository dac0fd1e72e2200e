"""Test data of several attack tests: a cluster's configuration, and a check of terminal output."""

from __future__ import annotations

from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"


def cluster() -> Cluster:
    """Return the configuration of a cluster with one host of eight GPUs, which may be rebooted."""
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "test"},
            "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            "hosts": [{"name": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY}],
            "reboot": {"when": "required"},
            "platform": "device-plugin",
        }
    )


def is_safe(text: str) -> bool:
    """Check that every line is printable and that none is a GitHub Actions workflow command."""
    return all(
        line.isprintable() and not line.lstrip().startswith("::") and "##[" not in line
        for line in text.split("\n")
    )
