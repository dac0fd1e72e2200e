"""Rules between the parts of a configuration: pure functions over the parts that are valid.

They run over whatever could be read, so that a mistake in one pool does not hide another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pydantic.alias_generators import to_camel

from components.base.address import canonical
from components.loading import driver, maintenance, namespaces, new_cluster, own_tests, scheduling
from components.platforms.registry import named
from components.settings.dra import Dra
from components.settings.driver_installer import DriverInstaller
from components.settings.hosts.host import Host, Role
from components.settings.parts import Parts
from components.settings.platform import NAMES
from policies.faults import Fault, Location, fault, show


def problems(parts: Parts) -> Iterator[Fault]:
    """Every contradiction between parts."""
    yield from _pools(parts)
    yield from _hosts(parts)
    yield from _membership(parts)
    yield from _platform(parts)
    yield from _names(parts)
    yield from driver.problems(parts)
    yield from scheduling.problems(parts)
    yield from namespaces.problems(parts)
    yield from maintenance.problems(parts)
    yield from new_cluster.problems(parts)
    yield from own_tests.problems(parts)
    if parts.platform is not None:
        yield from named(parts.platform).problems(parts)


def _pools(parts: Parts) -> Iterator[Fault]:
    yield from _repeated(
        (((("pools", i, "name"), pool.name), pool.name) for i, pool in parts.pools.items()),
        "each pool name once",
        "rename one of the two pools",
    )
    yield from _repeated(
        (
            ((("pools", i, "nodes"), name), name)
            for i, pool in parts.pools.items()
            for name in pool.node_names
        ),
        "a node in one pool only",
        "take {value} out of one of the two pools",
    )
    yield from _repeated(
        (
            ((("pools", i, "selector"), "the same selector"), tuple(sorted(pool.selector.items())))
            for i, pool in parts.pools.items()
            if pool.selector is not None
        ),
        "selectors that find different nodes",
        "select each pool by a label of its own",
    )


def _hosts(parts: Parts) -> Iterator[Fault]:
    hosts = parts.hosts.items()
    yield from _repeated(
        (((("hosts", i, "name"), host.name), host.name) for i, host in hosts),
        "each host name once",
        "rename one of the two hosts",
    )
    yield from _repeated(
        (
            ((("hosts", i, "address"), f"{host.address} port {host.port}"), _endpoint(host))
            for i, host in hosts
        ),
        "each address and port once",
        "correct the address or the port of one of the two hosts",
    )
    yield from _repeated(
        (((("hosts", i, "node"), host.node), host.node) for i, host in hosts),
        "one host for each node",
        "correct `node` of one of the two hosts",
    )


def _membership(parts: Parts) -> Iterator[Fault]:
    """The node of a host with GPUs is in a pool with GPUs; another's is not."""
    pairs = ((Role.GPU_WORKER, Role.CPU_WORKER), (Role.GPU_CONTROL_PLANE, Role.CONTROL_PLANE))
    others = {one: other for pair in pairs for one, other in (pair, pair[::-1])}
    gpus = {name: pool.gpus_per_node for pool in parts.pools.values() for name in pool.node_names}
    by_label = any(pool.selector is not None for pool in parts.pools.values())
    for i, host in parts.hosts.items():
        if host.role.has_gpus and host.node not in gpus:
            if parts.complete and not by_label:
                yield fault(
                    ("hosts", i, "node"),
                    f"{show(host.node)}, which is in no pool",
                    f"the node of a {host.role} in one of the pools",
                    "add it to `nodes` of its pool, or correct `node` or `role`",
                )
        elif host.role.has_gpus and gpus[host.node] == 0:
            yield fault(
                ("hosts", i, "role"),
                f"{host.role}, in a pool with gpusPerNode 0",
                f"a {host.role} in a pool with GPUs",
                f'write "role: {others[host.role]}", or correct gpusPerNode of the pool',
            )
        elif not host.role.has_gpus and gpus.get(host.node, 0) > 0:
            yield fault(
                ("hosts", i, "role"),
                f"{host.role}, in a pool with gpusPerNode {gpus[host.node]}",
                f"a {host.role} outside the pools with GPUs",
                f'write "role: {others[host.role]}", or take the node out of the pool',
            )


def _platform(parts: Parts) -> Iterator[Fault]:
    if parts.platform is None:
        return
    for name in NAMES:
        section = to_camel(name.replace("-", "_"))
        if name != parts.platform and section in parts.given:
            yield fault(
                (section,),
                f"a section {section} with platform {parts.platform}",
                "only the section of the chosen platform",
                f'remove {section}, or write "platform: {name}"',
            )


def _names(parts: Parts) -> Iterator[Fault]:
    """Names of pools in other sections."""
    pools = [pool.name for pool in parts.pools.values()]
    dra, installer = parts.sections.get("dra"), parts.sections.get("driver_installer")
    named: list[tuple[Location, str]] = []
    if isinstance(dra, Dra):
        named += [(("dra", "selectors", name), name) for name in dra.selectors]
    if isinstance(installer, DriverInstaller):
        named += [(("driverInstaller", "pools", name), name) for name in installer.pools]
    for location, name in named:
        if name not in pools and parts.complete:
            known = ", ".join(pools)
            yield fault(location, f"pool {show(name)}", f"one of {known}", "correct the name")


_Key = TypeVar("_Key")


def _repeated(
    places: Iterator[tuple[tuple[Location, str], _Key]], wanted: str, cure: str
) -> Iterator[Fault]:
    """A problem for each value that stands at a second place."""
    first: dict[_Key, Location] = {}
    for (location, text), key in places:
        if key in first:
            other = fault(first[key], "", "", "").place
            yield fault(location, f"{text}, as in {other}", wanted, cure.replace("{value}", text))
        else:
            first[key] = location


def _endpoint(host: Host) -> tuple[str, int]:
    return canonical(host.address), host.port
