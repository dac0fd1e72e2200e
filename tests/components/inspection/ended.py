"""Warnings about software that is past its end of support on a given day."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.inspection.ends import HOSTNAME, outlived
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.loading.loader import load
from gpu_rules.faults import FaultSeverity
from tests.fixtures.documents import document

DAY = date(2026, 11, 26)


def told(
    facts: dict[str, HostFacts] | None = None,
    kubernetes: str = "v1.36.3",
    nodes: dict[str, str] | None = None,
    today: date = DAY,
    **sections: Any,
) -> list[str]:
    """Return the warnings about hosts, the Kubernetes version and the drivers in node labels."""
    labels = [{HOSTNAME: name, DRIVER_LABEL: driver} for name, driver in (nodes or {}).items()]
    declared = load(document(**sections))
    found = list(
        outlived(
            "test",
            resolve(declared, "dev").nodes,
            resolve(declared, "dev").hosts,
            facts or {},
            kubernetes,
            {"a100": labels},
            today,
        )
    )
    assert {fault.severity for fault in found} <= {FaultSeverity.WARNING}
    return [str(fault) for fault in found]
