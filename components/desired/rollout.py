"""How nodes are taken out of use, one wave after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.desired.host import Target
from components.desired.pool import Members
from components.desired.validation import PoolValidation


@dataclass(frozen=True, kw_only=True)
class DesiredRollout:
    """The bounds of everything that takes nodes out of use: rollouts, reboots, MIG layouts.

    Attributes:
        context: context of the kubeconfig.
        makes_cluster: the stack makes the cluster, which may not exist yet.
        max_unavailable: nodes that may be out of use at the same time.
        drain_timeout_seconds: seconds until the pods of a drained node are gone.
        consent: what evicted pods may lose (`rollout.evict`), sorted.
        boots: hosts are rebooted if they need it (`reboot.when: required`).
        boot_timeout_seconds: seconds until a rebooted host answers.
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
    """Request of the program ``reboot``.

    Attributes:
        rollout: how nodes are taken out of use.
        hosts: the hosts that may be rebooted.
        prepared: digest of what hosts are prepared with; after a change hosts may need a boot.
        private_key: an SSH private key that logs in to the hosts.
    """

    rollout: DesiredRollout
    hosts: tuple[Target, ...]
    prepared: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PoolLayout(Members):
    """The MIG layout of a pool's nodes.

    Attributes:
        layout: name of the layout; empty: the pool declares none.
        excluded: nodes that name a layout of their own.
    """

    layout: str = ""
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DesiredMigLayouts:
    """The MIG layouts of the pools with GPUs.

    Attributes:
        manager: field manager of the label that names a node's layout.
        pools: the pools.
        maintenance: nodes that are left as they are.
        namespace: namespace of MIG manager's pods; `selector`: their label selector.
        timeout_seconds: seconds that MIG manager may take for a node.
    """

    manager: str
    pools: tuple[PoolLayout, ...]
    maintenance: tuple[str, ...]
    namespace: str = ""
    selector: str = ""
    timeout_seconds: int = 0

    @property
    def is_declared(self) -> bool:
        """Whether a pool declares a layout."""
        return any(pool.layout for pool in self.pools)


@dataclass(frozen=True, kw_only=True)
class MigLayoutsRequest:
    """Request of the program ``layouts``.

    Attributes:
        rollout: how nodes are taken out of use.
        layouts: the layouts.
        pools: how nodes are validated afterwards.
    """

    rollout: DesiredRollout
    layouts: DesiredMigLayouts
    pools: tuple[PoolValidation, ...]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A script of a host, and the command lines that run it.

    Attributes:
        name: ``prepare`` or ``runtime``.
        script: the script; a secret if the host joins a cluster.
        lines: command line by action: ``apply``, ``fetch`` and ``upgrade``.
    """

    name: str
    script: str = field(repr=False)
    lines: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RolledHost:
    """A host that changes.

    Attributes:
        target: how it is reached.
        prepare: its preparation; `runtime`: its container runtime; None: nothing is configured.
        has_gpus: its node's GPU pods end before the change.
        upgrades: its kubeadm upgrades the control plane.
        refused: why it must not change; empty: it may.
        pool: name of its node's pool in `RolloutRequest.pools`; empty: none.
        layouts: MIG layouts that its node may have when it is validated; none: any.
    """

    target: Target
    prepare: Phase
    runtime: Phase | None
    has_gpus: bool
    upgrades: bool
    refused: str = ""
    pool: str = ""
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operands:
    """The platform's pods, which hold a node's GPUs.

    Attributes:
        spaces: namespaces that the stack makes: the pods of all their DaemonSets count.
        namespace: namespace of the platform, where only pods with `labels` count.
        labels: labels of the pods that advertise GPUs.
    """

    spaces: tuple[str, ...]
    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RolloutRequest:
    """Request of the program ``rollout``.

    Attributes:
        rollout: how nodes are taken out of use.
        hosts: the hosts that change.
        operands: the platform's pods.
        pools: how nodes are validated after their change, by pool.
        private_key: an SSH private key that logs in to the hosts.
    """

    rollout: DesiredRollout
    hosts: tuple[RolledHost, ...]
    operands: Operands
    pools: Mapping[str, PoolValidation]
    private_key: str = field(repr=False)
