"""Checks whether hosts can run the GPU Operator's driver container. Pure, over all hosts' facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.desired.host import DesiredHost
from components.host_facts import HostFacts
from components.settings.hosts.driver import DriverSettings
from policies.faults import Fault

# Operating systems for which the operator's image tag has only the major version (gpu-operator
# v26.7.0, controllers/state_manager.go, getGPUNodeOSInfo).
MAJOR_ONLY = ("rhel", "rocky", "ol")


def image_tag(facts: HostFacts) -> str:
    """Return the operating system's part of a driver image's tag, such as `ubuntu24.04`."""
    version = facts.os_version
    return facts.os + (version.split(".")[0] if facts.os in MAJOR_ONLY else version)


def judge_all(
    driver: DriverSettings, hosts: Iterable[DesiredHost], facts: Mapping[str, HostFacts]
) -> list[Fault]:
    """Return faults that keep the operator's driver container from running on the reached hosts."""
    if not driver.managed_by_operator:
        return []
    reached = {
        host.name: facts[host.name]
        for host in hosts
        if host.role.has_gpus and host.name in facts and not facts[host.name].error
    }
    return _one_system(driver, reached)


def _one_system(driver: DriverSettings, reached: Mapping[str, HostFacts]) -> list[Fault]:
    """Return a fault for each host whose system differs from the first host's system.

    With its ClusterPolicy, the operator uses the driver image of the first node's system for all
    nodes, and a digest identifies the image of one system.
    """
    if driver.resource and driver.digest is None:
        return []
    first: tuple[str, str] | None = None
    faults = []
    for name, facts in reached.items():
        first = first or (name, image_tag(facts))
        if image_tag(facts) != first[1]:
            faults.append(
                Fault(
                    f"host {name}",
                    f"{image_tag(facts)}, and {first[1]} on {first[0]}",
                    "one system on all GPU nodes: by its policy the operator takes the driver image"
                    " of the first one for all",
                    'write "resource: true" under driver, without digest: an NVIDIADriver serves'
                    " each system",
                )
            )
    return faults
