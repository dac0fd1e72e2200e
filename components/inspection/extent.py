"""What is inspected, as the environment says."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Self

import pulumi

EXTENT = "GPU_CLUSTER_INSPECTION"
"""Variable that says what is inspected; without it hosts and cluster."""


class Extent(StrEnum):
    """What is inspected: ``cluster`` leaves the hosts alone, ``hosts`` the cluster."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"

    @property
    def has_hosts(self) -> bool:
        """Whether the hosts are inspected."""
        return self in (Extent.ALL, Extent.HOSTS)

    @property
    def has_cluster(self) -> bool:
        """Whether the cluster is inspected."""
        return self in (Extent.ALL, Extent.CLUSTER)

    @classmethod
    def wanted(cls) -> Self:
        """Return what the environment says.

        Raises:
            RunError: it says what is not known.
        """
        found = os.environ.get(EXTENT, cls.ALL)
        if found not in set(cls):
            raise pulumi.RunError(
                f"{EXTENT}: found {found!r}; wanted: {', '.join(cls)}; cure: unset {EXTENT}"
            )
        return cls(found)
