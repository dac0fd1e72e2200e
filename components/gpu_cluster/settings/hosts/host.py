"""Hosts: machines that this program prepares over SSH, and the node that each machine becomes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from gpu_cluster.base.address import Address
from gpu_cluster.base.host_key import HostKey
from gpu_cluster.base.model import OwnCure
from gpu_cluster.base.names import DnsLabel, NodeName
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.hosts.ssh import Bastion
from gpu_cluster.settings.hosts.user import Port, User


class Role(StrEnum):
    """Role of a host in the cluster; a `gpu-control-plane` also runs GPU pods."""

    GPU_WORKER = "gpu-worker"
    CPU_WORKER = "cpu-worker"
    CONTROL_PLANE = "control-plane"
    GPU_CONTROL_PLANE = "gpu-control-plane"

    @property
    def has_gpus(self) -> bool:
        """Return True if the host gets the GPU driver and the GPU settings of the runtime."""
        return self in (Role.GPU_WORKER, Role.GPU_CONTROL_PLANE)

    @property
    def is_control_plane(self) -> bool:
        """Return True if the host runs the control plane: it reboots alone, with its ports open."""
        return self in (Role.CONTROL_PLANE, Role.GPU_CONTROL_PLANE)

    @property
    def is_worker(self) -> bool:
        """Return True if the host's firewall opens the port range of Services (NodePort)."""
        return self is not Role.CONTROL_PLANE


class Host(NodeSections):
    """A machine that this program prepares over SSH.

    If the host sets no `port`, `user` or `bastion`, the values of its pool's `ssh` apply, then the
    values of the stack's `ssh`. `bastion: null` connects to the host without a jump host.
    """

    name: DnsLabel = Field(description="the host's name, such as gpu-1", examples=["gpu-1"])
    node: NodeName = Field(description="the name of the host's node", examples=["gpu-1"])
    role: Role = Field(
        default=Role.GPU_WORKER,
        description="gpu-worker, cpu-worker, control-plane or gpu-control-plane",
        examples=["gpu-worker"],
    )
    address: Address = Field(
        description="an IPv4 address, an IPv6 address or a host name", examples=["192.0.2.11"]
    )
    port: Port = 22
    user: User = "root"
    bastion: Bastion | None = Field(
        default=None, description="a mapping that describes the jump host, or null"
    )
    host_key: Annotated[
        HostKey, OwnCure("run `gpu-cluster host-keys`, which scans it and writes it")
    ] = Field(
        description="the host's public key, as in /etc/ssh/ssh_host_ed25519_key.pub",
        examples=["ssh-ed25519 AAAA…"],
    )

    @model_validator(mode="before")
    @classmethod
    def _node_is_named_as_host(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "node" not in data and "name" in data:
            return {**data, "node": data["name"]}
        return data
