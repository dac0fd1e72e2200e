"""A host as it should be: the stack's sections with its pool's and its own values over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from components.settings.hosts.host import Role
from components.settings.hosts.kubernetes_packages import Join
from components.settings.hosts.sections import HostSections
from components.settings.hosts.ssh import Bastion, SshSettings


class Upgrade(StrEnum):
    """The subcommand of `kubeadm upgrade` that a host runs when its kubeadm changes.

    `apply` upgrades the control plane. `node` follows it. `none`: kubeadm upgrades nothing there.
    """

    APPLY = "apply"
    NODE = "node"
    NONE = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """How a host is reached, and what it is; a part of the requests of programs.

    Attributes:
        name: the host's name.
        node: its node's name.
        role: what it is in the cluster.
        address: its address; `port` and `user`: as `ssh` has them.
        host_key: the public key that it must show, as in ssh_host_ed25519_key.pub.
        bastion: the jump host; None: it is reached directly.
    """

    name: str
    node: str
    role: Role
    address: str
    port: int
    user: str
    host_key: str
    bastion: Bastion | None


@dataclass(frozen=True, kw_only=True)
class DesiredHost(Target):
    """A host with everything that its scripts, its inspection and its commands need.

    Attributes:
        ssh: limits of connections and commands.
        sections: the sections that its steps read, with its own values.
        in_maintenance: the host is out for repair: nothing connects to it.
        joins: its preparation joins it to an existing cluster (`kubernetesPackages.join`).
        upgrade: what kubeadm upgrades there.
        takes_a_job: a node of the stack takes the Job by which kubeadm checks an upgrade.
        excluded_gpus: UUIDs of the GPUs that its driver leaves out, sorted.
        pool: name of the pool that names its node; empty: none does.
        gpus: GPUs that its driver must show; None: no pool names its node.
        configures_runtime: this program configures the NVIDIA runtime there.
        uses_toolkit: its containers get GPUs from a toolkit that no platform installs.
        takes_cgroup_v1: its platform works with cgroup v1 alone.
        validation_image: image that runs a kernel on its GPUs.
    """

    ssh: SshSettings
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
    validation_image: str

    @property
    def target(self) -> Target:
        """How the host is reached, without the rest."""
        return Target(**{each.name: getattr(self, each.name) for each in fields(Target)})

    @property
    def join(self) -> Join | None:
        """How the host joins an existing cluster; None: its preparation doesn't join it."""
        return self.sections.kubernetes_packages.join if self.joins else None


def working(hosts: Iterable[DesiredHost]) -> tuple[DesiredHost, ...]:
    """Return the hosts that may be reached and changed: those not in maintenance."""
    return tuple(host for host in hosts if not host.in_maintenance)
