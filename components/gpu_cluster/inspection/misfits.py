"""Find declared drivers that don't work on a node's kernel. Pure functions.

Drivers of declared hosts are checked in `gpu_cluster.hosts.steps.driver`, and declared versions
with each other in `gpu_cluster.loading.validate_versions`. This module checks drivers that a
container installs, on nodes that are not declared as hosts of the stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_cluster.base.compatibility import kernel_refused
from gpu_cluster.desired.nodes import DesiredNodes
from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_rules.facts.parts import operator_part
from gpu_rules.faults import Fault
from gpu_rules.printable import printable, shortened

NAMED = 8
"""Maximum number of nodes that a fault names; further nodes are only counted."""


def misfits(
    platform: Platform,
    nodes: DesiredNodes,
    kernels: Mapping[str, str],
) -> Iterator[Fault]:
    """Yield a fault for each driver whose module is known not to build for a node's kernel.

    Args:
        platform: Platform that advertises the GPUs.
        kernels: Kernel of each node of the GPU pools that is not declared as a host, by node.
    """
    drivers: dict[str, dict[str, str]] = {
        _in_container(pool.driver, platform): {} for pool in nodes.by_pool.values() if pool.gpus
    }
    for node, kernel in kernels.items():
        drivers.setdefault(_in_container(nodes.driver_of(node), platform), {})[node] = kernel
    for driver, booted in drivers.items():
        if driver:
            yield from _check_kernels(driver, booted)


def _in_container(driver: DriverSettings, platform: Platform) -> str:
    """Return the version of a driver that a container installs; empty for other drivers."""
    if driver.managed_by_operator and not driver.version:
        return operator_part(platform.version, "driver")
    return (driver.version or "") if driver.in_container else ""


def _check_kernels(driver: str, kernels: Mapping[str, str]) -> Iterator[Fault]:
    """Yield a fault for each kernel for which the driver's modules are known not to build."""
    nodes_by_kernel: dict[str, list[str]] = {}
    for node, kernel in kernels.items():
        nodes_by_kernel.setdefault(kernel, []).append(node)
    for kernel, nodes in nodes_by_kernel.items():
        if refusal := kernel_refused(driver, kernel):
            names = shortened([printable(name, 80) for name in nodes], NAMED)
            yield Fault(
                f"node{'s' if nodes[1:] else ''} {names}",
                f"driver {driver} on kernel {printable(kernel, 80)}, {refusal}",
                "a pair that builds",
                "declare another driver.version, or boot another kernel",
            )
