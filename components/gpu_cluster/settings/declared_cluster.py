"""Root model of the stack file, with the sections that pools and hosts override.

Only loading reads these sections: the settings of a node are those of its pool and its host
(`gpu_cluster.loading.inventory`).
"""

from __future__ import annotations

from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.sections import NodeSections


class ClusterSettings(NodeSections, Cluster):
    """A GPU cluster as declared in the stack file; omitted sections have their default values."""
