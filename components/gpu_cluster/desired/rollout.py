"""Desired limits of rollouts, and the requests of the programs that change nodes in waves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_cluster.desired.host import Target, Upgrade
from gpu_cluster.desired.pool import Members
from gpu_cluster.desired.validation import PoolValidation


@dataclass(frozen=True, kw_only=True)
class DesiredRollout:
    """Limits of all changes that make nodes unavailable: rollouts, reboots, new MIG layouts.

    Attributes:
        makes_cluster: True if the stack creates the cluster, which then may not exist yet.
        max_unavailable: Maximum number of nodes that may be unavailable at the same time.
        drain_timeout_seconds: Seconds to wait until the pods of a drained node have ended.
        consent: Values of `rollout.evict`, sorted: kinds of pods that may be evicted with a loss.
        boots: True if hosts reboot when they need a reboot (`reboot.when: required`).
        boot_timeout_seconds: Seconds to wait until a rebooted host is reachable over SSH.
    """

    context: str
    makes_cluster: bool
    max_unavailable: int
    drain_timeout_seconds: int
    consent: tuple[str, ...]
    boots: bool
    boot_timeout_seconds: int


@dataclass(frozen=True, kw_only=True)
class RebootRequest:
    """Request of the program `reboot`.

    Attributes:
        rollout: Limits of changes that make nodes unavailable.
        hosts: Hosts that may be rebooted.
        prepared: Digest of the hosts' preparation; a change makes the program run again, because
            hosts may need a reboot.
        private_key: SSH private key to log in to the hosts.
    """

    rollout: DesiredRollout
    hosts: tuple[Target, ...]
    prepared: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PoolLayout(Members):
    """The MIG layout of a pool's nodes.

    Attributes:
        layout: Name of the MIG layout; empty if the pool declares none.
        excluded: Names of nodes that declare a different MIG layout.
    """

    layout: str = ""
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DesiredMigLayouts:
    """The MIG layouts of the pools with GPUs.

    Attributes:
        manager: Field manager of the node label that names the MIG layout.
        pools: MIG layouts by pool.
        maintenance: Names of nodes in maintenance, which are not changed.
        namespace: Namespace of MIG manager's pods.
        selector: Label selector of MIG manager's pods.
        timeout_seconds: Seconds to wait until MIG manager has changed a node.
    """

    manager: str
    pools: tuple[PoolLayout, ...]
    maintenance: tuple[str, ...]
    namespace: str = ""
    selector: str = ""
    timeout_seconds: int = 0

    @property
    def is_declared(self) -> bool:
        """Return True if at least one pool declares a MIG layout."""
        return any(pool.layout for pool in self.pools)


@dataclass(frozen=True, kw_only=True)
class MigLayoutsRequest:
    """Input of the program `mig-layouts`, which changes the MIG layouts of nodes in waves.

    Attributes:
        rollout: Limits of changes that make nodes unavailable.
        pools: Validation of each pool's nodes after the change.
    """

    rollout: DesiredRollout
    layouts: DesiredMigLayouts
    pools: tuple[PoolValidation, ...]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A script for a host, and the command lines that run the script.

    Attributes:
        name: `prepare` or `runtime`.
        script: Text of the script; a secret if the host joins a cluster.
        lines: Command line by action: `apply`, `fetch`, `upgrade` and `undo`.
    """

    name: str
    script: str = field(repr=False)
    lines: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RolledHost:
    """A host that a rollout changes.

    Attributes:
        target: Connection data of the host.
        prepare: Script that prepares the host.
        runtime: Script that configures the container runtime; None if nothing is configured.
        undoes_runtime: True if `runtime` is undone, because the host no longer declares it.
        has_gpus: True if the node has GPUs, so that its GPU pods must end before the change.
        upgrade: Subcommand of `kubeadm upgrade` that the host runs.
        refused: Reason why the host must not be changed; empty if the host may be changed.
        pool: Name of the node's pool in `RolloutRequest.pools`; empty if the node has no pool.
        layouts: MIG layouts that the node may have during its validation; empty for any layout.
    """

    target: Target
    prepare: Phase
    runtime: Phase | None
    has_gpus: bool
    upgrade: Upgrade
    undoes_runtime: bool = False
    refused: str = ""
    pool: str = ""
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Selectors of the platform's own pods on GPU nodes.

    Attributes:
        spaces: Namespaces that the stack creates; the pods of all their DaemonSets are selected.
        namespace: Namespace of the platform; only its pods with `labels` are selected.
        labels: Labels of the pods that advertise GPUs.
    """

    spaces: tuple[str, ...]
    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RolloutRequest:
    """Request of the program `rollout`.

    Attributes:
        rollout: Limits of changes that make nodes unavailable.
        hosts: Hosts to change.
        operands: Selectors of the platform's pods.
        pools: Validation of the nodes after their change, by pool.
        private_key: SSH private key to log in to the hosts.
    """

    rollout: DesiredRollout
    hosts: tuple[RolledHost, ...]
    operands: Operands
    pools: Mapping[str, PoolValidation]
    private_key: str = field(repr=False)
