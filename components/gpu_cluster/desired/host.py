"""Desired state of a host: the stack's settings, overridden by its pool's and the host's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.kubernetes_packages import Join
from gpu_cluster.settings.hosts.sections import HostSections
from gpu_cluster.settings.hosts.ssh import Bastion, SshLimits


class Upgrade(StrEnum):
    """Subcommand of `kubeadm upgrade` that a host runs when the version of its kubeadm changes.

    `apply` upgrades the cluster and the first control plane. Afterwards `kubeadm upgrade node`
    upgrades the other control planes (`member`), then the workers (`node`). `none` means that
    kubeadm upgrades nothing on the host.
    """

    APPLY = "apply"
    MEMBER = "member"
    NODE = "node"
    NONE = ""

    @property
    def is_first(self) -> bool:
        """Return whether the host upgrades the cluster, before all other hosts."""
        return self is Upgrade.APPLY

    @property
    def is_control_plane(self) -> bool:
        """Return whether kubeadm upgrades a control plane on the host."""
        return self in (Upgrade.APPLY, Upgrade.MEMBER)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Connection data and role of a host, as part of the requests to programs.

    Attributes:
        name: Name of the host.
        node: Name of the host's Kubernetes node.
        role: Role of the host in the cluster.
        address: IP address or host name.
        port: SSH port.
        user: SSH user.
        host_key: Expected public host key, in the format of ssh_host_ed25519_key.pub.
        bastion: Jump host, or None for a direct connection.
        ssh: Limits of SSH connections and commands.
    """

    name: str
    node: str
    role: Role
    address: str
    port: int
    user: str
    host_key: str
    bastion: Bastion | None
    ssh: SshLimits

    @property
    def login_seconds(self) -> int:
        """Return the time limit of one try to log in."""
        return self.ssh.per_dial_timeout_seconds


@dataclass(frozen=True, kw_only=True)
class DesiredHost(Target):
    """A host with all data that its scripts, its inspection and its Pulumi commands need.

    Attributes:
        sections: Settings that the host's preparation steps read, with the host's overrides.
        in_maintenance: True if the host is in maintenance; the program doesn't connect to it.
        joins: True if the preparation joins the host to an existing cluster
            (`kubernetesPackages.join`).
        upgrade: Subcommand of `kubeadm upgrade` that the host runs.
        takes_a_job: True if a node of the stack can run the Job with which kubeadm checks an
            upgrade.
        excluded_gpus: UUIDs of the GPUs that the host's driver excludes, sorted.
        pool: Name of the pool that lists the host's node; empty if no pool lists the node.
        gpus: Number of GPUs that the driver must show; None if no pool lists the host's node.
        configures_runtime: True if this program configures the NVIDIA runtime on the host.
        uses_toolkit: True if containers get their GPUs from a container toolkit that the platform
            does not install.
        takes_cgroup_v1: True if the platform works only with cgroup v1.
        runs_imex: True if the platform runs IMEX daemons for compute domains on its nodes.
        validation_image: Image that runs a CUDA kernel on the host's GPUs.
    """

    sections: HostSections
    in_maintenance: bool
    joins: bool
    upgrade: Upgrade
    takes_a_job: bool
    excluded_gpus: tuple[str, ...]
    pool: str
    gpus: int | None
    configures_runtime: bool
    uses_toolkit: bool
    takes_cgroup_v1: bool
    runs_imex: bool
    validation_image: str

    @property
    def target(self) -> Target:
        """Return the connection data and role of the host."""
        return Target(**{field.name: getattr(self, field.name) for field in fields(Target)})

    @property
    def join(self) -> Join | None:
        """Return the settings for joining an existing cluster; None if the host doesn't join."""
        return self.sections.kubernetes_packages.join if self.joins else None


def working(hosts: Iterable[DesiredHost]) -> tuple[DesiredHost, ...]:
    """Return the hosts that are not in maintenance, which may be connected to and changed."""
    return tuple(host for host in hosts if not host.in_maintenance)
