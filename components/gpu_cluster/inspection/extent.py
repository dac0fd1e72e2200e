"""Parts that the inspection covers (hosts, cluster), set by an environment variable."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Self

from gpu_rules.faults import Fault, FaultError

EXTENT = "GPU_CLUSTER_INSPECTION"
"""Environment variable with the extent of the inspection. Unset: hosts and cluster."""


class Extent(StrEnum):
    """Extent of the inspection: both, only the `cluster`, only the `hosts`, or nothing."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"

    @property
    def has_hosts(self) -> bool:
        """Return whether the hosts are inspected."""
        return self in (Extent.ALL, Extent.HOSTS)

    @property
    def has_cluster(self) -> bool:
        """Return whether the cluster is inspected."""
        return self in (Extent.ALL, Extent.CLUSTER)

    @property
    def skipped(self) -> str:
        """Return a text that names the parts that are not inspected; empty if all parts are."""
        words = {Extent.CLUSTER: "hosts", Extent.HOSTS: "the cluster"}
        return "" if self is Extent.ALL else words.get(self, "hosts and the cluster")

    @classmethod
    def wanted(cls) -> Self:
        """Return the extent that the environment variable sets.

        Raises:
            FaultError: The variable has an unknown value.
        """
        value = os.environ.get(EXTENT, cls.ALL)
        if value not in set(cls):
            raise FaultError(Fault(EXTENT, repr(value), ", ".join(cls), f"unset {EXTENT}"))
        return cls(value)
