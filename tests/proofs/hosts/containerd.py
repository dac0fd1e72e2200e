"""Paths and contents of containerd's files on a simulated host."""

from __future__ import annotations

ROOT = "/etc/containerd/config.toml"
DROPIN = "/etc/containerd/conf.d/99-nvidia.toml"
GLOB = "/etc/containerd/conf.d/*.toml"
