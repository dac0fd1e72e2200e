"""Check whether hosts can run the GPU Operator's driver container. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_rules.faults import Fault

# Operating systems for which the operator's image tag has only the major version (gpu-operator
# v26.7.0, controllers/state_manager.go, getGPUNodeOSInfo).
MAJOR_ONLY = ("rhel", "rocky", "ol")


def image_tag(facts: HostFacts) -> str:
    """Return the suffix of a driver image's tag for an operating system, such as `ubuntu24.04`."""
    version = facts.os_version
    return facts.os + (version.split(".")[0] if facts.os in MAJOR_ONLY else version)


def judge_all(hosts: Iterable[DesiredHost], facts: Mapping[str, HostFacts]) -> list[Fault]:
    """Return a fault for each host whose operating system differs from that of the first host.

    With a ClusterPolicy, the GPU Operator uses the driver image for the first node's operating
    system on all nodes. An image digest identifies the image for one operating system, too.
    Only hosts with GPUs that the operator's driver container runs on are compared.
    """
    first: tuple[str, str] | None = None
    faults = []
    for host in hosts:
        driver, host_facts = host.sections.driver, facts.get(host.name)
        of_system = driver.resource and driver.digest is None
        if host_facts is None or host_facts.error or not host.role.has_gpus or of_system:
            continue
        if not driver.managed_by_operator:
            continue
        first = first or (host.name, image_tag(host_facts))
        if image_tag(host_facts) != first[1]:
            faults.append(
                Fault(
                    f"host {host.name}",
                    f"{image_tag(host_facts)}, and {first[1]} on {first[0]}",
                    "one system on all GPU nodes: with a ClusterPolicy, the operator uses the "
                    "driver"
                    " image of the first node for all nodes",
                    'write "resource: true" under driver, without digest: then there is one'
                    " NVIDIADriver per system",
                )
            )
    return faults
