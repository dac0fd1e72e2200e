"""How nodes are taken out of use, one wave after the other."""

from __future__ import annotations

from dataclasses import dataclass


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
