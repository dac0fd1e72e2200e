"""Checks between sections of a stack file.

The checks run on the sections that are valid on their own, so that a fault in one pool does not
hide the faults of another pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pydantic.alias_generators import to_camel

from gpu_cluster.base.address import canonical
from gpu_cluster.base.document_cures import REMOVE, rename_to
from gpu_cluster.base.nearness import nearest
from gpu_cluster.loading import (
    validate_adopted,
    validate_driver,
    validate_kubeadm_cluster,
    validate_namespaces,
    validate_overrides,
    validate_scheduling,
    validate_versions,
)
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.dra import DraSettings
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.hosts.host import Host, Role
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.platform import NAMES
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_cluster.settings.validation import ValidationSettings
from gpu_rules.faults import Fault, Location, fault, show
from gpu_rules.printable import shortened


def validate(sections: ValidSections) -> tuple[Fault, ...]:
    """Return all faults between sections; pools and hosts that inherit a fault share it."""
    return tuple(dict.fromkeys(_check_sections(sections)))


def _check_sections(sections: ValidSections) -> Iterator[Fault]:
    yield from _check_pools(sections)
    yield from _check_hosts(sections)
    yield from _check_membership(sections)
    yield from _check_platform(sections)
    yield from _check_pool_names(sections)
    yield from validate_driver.validate(sections)
    yield from validate_versions.validate(sections)
    yield from validate_scheduling.validate(sections)
    yield from validate_namespaces.validate(sections)
    yield from _check_maintenance(sections)
    yield from validate_kubeadm_cluster.validate(sections)
    yield from _check_user_tests(sections)
    yield from validate_adopted.validate(sections)
    yield from validate_overrides.validate(sections)
    if sections.platform is not None:
        yield from named(sections.platform).validate_settings(sections)


def _check_pools(sections: ValidSections) -> Iterator[Fault]:
    yield from _check_repeated(
        (((("pools", i, "name"), pool.name), pool.name) for i, pool in sections.pools.items()),
        "each pool name once",
        "write another name, such as gpu-2",
    )
    yield from _check_repeated(
        (
            ((("pools", i, "nodes"), name), name)
            for i, pool in sections.pools.items()
            for name in pool.node_names
        ),
        "a node in one pool only",
        "take {value} out of one of the two pools",
    )
    yield from _check_repeated(
        (
            ((("pools", i, "selector"), "the same selector"), tuple(sorted(pool.selector.items())))
            for i, pool in sections.pools.items()
            if pool.selector is not None
        ),
        "selectors that find different nodes",
        "select each pool by a different label",
    )


def _check_hosts(sections: ValidSections) -> Iterator[Fault]:
    hosts = sections.hosts.items()
    yield from _check_repeated(
        (((("hosts", i, "name"), host.name), host.name) for i, host in hosts),
        "each host name once",
        "write another name, such as gpu-2",
    )
    yield from _check_repeated(
        (
            ((("hosts", i, "address"), f"{host.address} port {host.port}"), _ssh_endpoint(host))
            for i, host in hosts
        ),
        "each address and port once",
        "correct the address or the port of one of the two hosts",
    )
    yield from _check_repeated(
        (((("hosts", i, "node"), host.node), host.node) for i, host in hosts),
        "one host for each node",
        "correct `node` of one of the two hosts",
    )


def _check_membership(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for hosts whose role does not match the GPUs of their node's pool.

    A host with a GPU role needs a pool with GPUs; other hosts must not be in such a pool.
    """
    pairs = ((Role.GPU_WORKER, Role.CPU_WORKER), (Role.GPU_CONTROL_PLANE, Role.CONTROL_PLANE))
    other_roles = {role: other_role for pair in pairs for role, other_role in (pair, pair[::-1])}
    gpus = {
        name: pool.gpus_per_node for pool in sections.pools.values() for name in pool.node_names
    }
    by_label = any(pool.selector is not None for pool in sections.pools.values())
    for i, host in sections.hosts.items():
        if host.role.has_gpus and host.node not in gpus:
            if sections.complete and not by_label:
                yield fault(
                    ("hosts", i, "node"),
                    f"{show(host.node)}, which is in no pool",
                    f"the node of a {host.role} in one of the pools",
                    f"write a node such as {next(iter(gpus), 'gpu-1')}, or add it to `nodes` "
                    "of its pool",
                )
        elif host.role.has_gpus and gpus[host.node] == 0:
            yield fault(
                ("hosts", i, "role"),
                f"{host.role}, in a pool with gpusPerNode 0",
                f"a {host.role} in a pool with GPUs",
                f'write "role: {other_roles[host.role]}", or correct gpusPerNode of the pool',
            )
        elif not host.role.has_gpus and gpus.get(host.node, 0) > 0:
            yield fault(
                ("hosts", i, "role"),
                f"{host.role}, in a pool with gpusPerNode {gpus[host.node]}",
                f"a {host.role} outside the pools with GPUs",
                f'write "role: {other_roles[host.role]}", or take the node out of the pool',
            )


def _check_platform(sections: ValidSections) -> Iterator[Fault]:
    if sections.platform is None:
        return
    for name in NAMES:
        section = to_camel(name.replace("-", "_"))
        if name != sections.platform and section in sections.given:
            yield fault(
                (section,),
                f"a section {section} with platform {sections.platform}",
                "only the section of the chosen platform",
                f'remove {section}, or write "platform: {name}"',
            )


def _check_pool_names(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for pool names in other sections that no pool has."""
    pools = [pool.name for pool in sections.pools.values()]
    dra, installer = sections.section(DraSettings), sections.section(DriverInstallerSettings)
    named_pools: list[tuple[Location, str]] = []
    if dra is not None:
        named_pools += [(("dra", "selectors", name), name) for name in dra.selectors]
    if installer is not None:
        named_pools += [(("driverInstaller", "pools", name), name) for name in installer.pools]
    for location, name in named_pools:
        if name not in pools and sections.complete:
            pool_names = ", ".join(pools)
            cure = rename_to(nearest(name, pools)) if pools else REMOVE
            yield fault(location, f"pool {show(name)}", f"one of {pool_names}", cure)


def _check_maintenance(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for names in `maintenance` that belong neither to a host nor to a node.

    A pool that selects its nodes by label may have nodes of any name, and a node in maintenance may
    be missing in the cluster. With such a pool every name is accepted.
    """
    if not sections.complete or any(pool.selector is not None for pool in sections.pools.values()):
        return
    known_names = {name for pool in sections.pools.values() for name in pool.node_names}
    known_names |= {name for host in sections.hosts.values() for name in (host.name, host.node)}
    for i, pattern in enumerate(sections.maintenance):
        strange = [name for name in expand(pattern) if name not in known_names]
        if strange:
            yield fault(
                ("maintenance", i),
                shortened([show(name) for name in strange], 1),
                "names of hosts, or of nodes that a pool names",
                "correct the name, or take it out",
            )


def _check_user_tests(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for user-defined tests that need more GPUs than any node has."""
    validation = sections.section(ValidationSettings)
    if validation is None or not sections.complete:
        return
    most = max((pool.gpus_per_node for pool in sections.pools.values()), default=0)
    for name, test in validation.tests.items():
        if test.gpus > most:
            yield fault(
                ("validation", "tests", name, "gpus"),
                f"{test.gpus}, and no pool has so many GPUs on a node",
                f"at most {most}: a test runs on one node",
                f"write {most}" if most else REMOVE,
            )


_Key = TypeVar("_Key")


def _check_repeated(
    places: Iterator[tuple[tuple[Location, str], _Key]], wanted: str, cure: str
) -> Iterator[Fault]:
    """Yield a fault for each value that two locations share but that must be unique."""
    first: dict[_Key, Location] = {}
    for (location, text), key in places:
        if key in first:
            first_place = fault(first[key], "", "", "").place
            yield fault(
                location, f"{text}, as in {first_place}", wanted, cure.replace("{value}", text)
            )
        else:
            first[key] = location


def _ssh_endpoint(host: Host) -> tuple[str, int]:
    return canonical(host.address), host.port
