"""Rules between the parts of a configuration: pure functions over the parts that are valid.

They run over whatever could be read, so that a mistake in one pool does not hide another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pydantic.alias_generators import to_camel

from components.driver_daemonset.settings import DriverInstaller
from components.hosts.settings.driver import Driver, KernelModule
from components.hosts.settings.host import Host, Role
from components.nodes.settings.scheduling import NodeFeatures, Scheduling
from components.platforms.dra.settings import Dra
from components.platforms.registry import named
from components.platforms.settings import NAMES
from components.settings import maintenance, namespaces, own_tests
from components.settings.parts import Parts
from config.address import canonical
from config.problem import Fault, Location, fault, show

#: Labels that Node Feature Discovery makes from features.
NFD_PREFIX = "feature.node.kubernetes.io/"


_CONTAINER_DRIVER = {
    "precompiled": "precompiled",
    "resource": "resource",
    "image_repository": "imageRepository",
    "image": "image",
}


def problems(parts: Parts) -> Iterator[Fault]:
    """Every contradiction between parts."""
    yield from _pools(parts)
    yield from _hosts(parts)
    yield from _membership(parts)
    yield from _platform(parts)
    yield from _driver(parts)
    yield from _excluded(parts)
    yield from _sections(parts)
    yield from namespaces.problems(parts)
    yield from maintenance.problems(parts)
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
            for name in pool.node_names()
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
    gpus = {name: pool.gpus_per_node for pool in parts.pools.values() for name in pool.node_names()}
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
    managed = parts.driver is not None and parts.driver.managed_by_operator
    brings = named(parts.platform).brings_driver
    if managed and not brings:
        able = next((name for name in NAMES if named(name).brings_driver), "")
        yield fault(
            ("driver", "source"),
            f"operator with platform {parts.platform}",
            f"driver source operator only with platform {able}",
            f'write "source: preinstalled", or "platform: {able}"',
        )
    by_daemonset = parts.driver is not None and parts.driver.managed_by_daemonset
    if by_daemonset and brings:
        yield fault(
            ("driver", "source"),
            f"daemonset with platform {parts.platform}",
            "one that brings the driver: the operator has a driver container of its own",
            'write "source: operator"',
        )
    if "driverInstaller" in parts.given and parts.driver is not None and not by_daemonset:
        yield fault(
            ("driverInstaller",),
            f"a section driverInstaller with driver.source {parts.driver.source}",
            "driverInstaller only with driver.source daemonset",
            'remove driverInstaller, or write "source: daemonset"',
        )


def _driver(parts: Parts) -> Iterator[Fault]:
    """What only a driver container has."""
    driver = parts.driver
    if driver is None or driver.managed_by_operator:
        return
    if driver.kernel_module_type is not KernelModule.AUTO and not driver.by_preparation:
        yield fault(
            ("driver", "kernelModuleType"),
            f"{driver.kernel_module_type} with source {driver.source}",
            "this only for a driver that we bring",
            "remove it",
        )
    for name, alias in _CONTAINER_DRIVER.items():
        if getattr(driver, name) != getattr(Driver(), name):
            yield fault(
                ("driver", alias),
                f"{show(getattr(driver, name))} with source {driver.source}",
                "this only for a driver that the GPU Operator brings",
                'remove it, or write "source: operator"',
            )


def _excluded(parts: Parts) -> Iterator[Fault]:
    """GPUs by UUID, which the driver of a host is told to leave out."""
    hosts = {host.node for host in parts.hosts.values()}
    driver = parts.driver or Driver()
    for i, pool in parts.pools.items():
        for node, devices in pool.unhealthy_devices.items():
            if not devices.uuid:
                continue
            at = ("pools", i, "unhealthyDevices", node, "uuid")
            if node not in hosts:
                yield fault(
                    at,
                    f"UUIDs of {show(node)}, which isn't a host of this stack",
                    "a host, whose driver is told to leave them out",
                    "declare the host, or name the GPU by index",
                )
            elif driver.managed_by_operator or driver.managed_by_daemonset:
                yield fault(
                    at,
                    f"UUIDs with driver.source {driver.source}",
                    "a driver of the host, which reads the host's modprobe.d",
                    "name the GPU by index, or install the driver on the host",
                )


def _sections(parts: Parts) -> Iterator[Fault]:
    """Names of pools and nodes in other sections, and what only one platform can do."""
    pools = {pool.name: pool for pool in parts.pools.values()}
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
    driver = parts.driver
    if (
        driver is not None
        and driver.managed_by_daemonset
        and isinstance(installer, DriverInstaller)
    ):
        for name, pool in pools.items():
            if pool.gpus_per_node and installer.version_of(name, driver.version) is None:
                yield fault(
                    ("driver", "version"),
                    f"no driver version for pool {name}",
                    "the version that the installer downloads",
                    'write "version: 595.91.07", or one below driverInstaller.pools',
                )
    if isinstance(installer, DriverInstaller) and "plugin_memory" in installer.model_fields_set:
        yield from _plugin_memory(parts)
    scheduling = parts.sections.get("scheduling")
    if isinstance(scheduling, Scheduling):
        yield from _scheduling(scheduling, parts)


def _plugin_memory(parts: Parts) -> Iterator[Fault]:
    """`driverInstaller.pluginMemory` needs NVIDIA's plugin, and nothing else that says the same."""
    at = ("driverInstaller", "pluginMemory")
    if parts.platform is not None and not named(parts.platform).takes_plugin_memory:
        yield fault(
            at,
            f"pluginMemory with platform {parts.platform}",
            "pluginMemory only with platform device-plugin, whose memory it is",
            'remove pluginMemory, or write "platform: device-plugin"',
        )
    own = parts.device_plugin.resources if parts.device_plugin is not None else None
    if own and any("memory" in part for part in own.values()):
        yield fault(
            at,
            "pluginMemory, and memory in devicePlugin.resources",
            "one of them: both are the plugin's memory",
            "remove pluginMemory",
        )


def _scheduling(scheduling: Scheduling, parts: Parts) -> Iterator[Fault]:
    nodes = {name for pool in parts.pools.values() for name in pool.node_names()}
    for name in scheduling.nodes:
        if name not in nodes and parts.complete:
            yield fault(
                ("scheduling", "nodes", name),
                f"node {show(name)}, which no pool names",
                "a node of a pool that names its nodes",
                "add it to `nodes` of its pool, or take it out here",
            )
    by_rule = scheduling.node_features is NodeFeatures.RULE
    for i, pool in parts.pools.items():
        strange = [key for key in pool.selector or {} if not key.startswith(NFD_PREFIX)]
        if by_rule and strange:
            yield fault(
                ("pools", i, "selector", strange[0]),
                f"the label {strange[0]} with scheduling.nodeFeatures rule",
                f"labels of Node Feature Discovery ({NFD_PREFIX}…), which a rule can match",
                'select by such a label, or write "nodeFeatures: program"',
            )
        if by_rule and pool.selector and pool.startup_taint:
            yield fault(
                ("pools", i, "startupTaint"),
                "true with scheduling.nodeFeatures rule",
                "a pool whose nodes this program taints itself: a rule taints them all the time",
                'leave it out, or write "nodeFeatures: program"',
            )
    if parts.platform is None or not scheduling.limits:
        return
    platform = named(parts.platform)
    if not platform.limit(1):
        yield fault(
            ("scheduling", "limits"),
            f"limits with platform {parts.platform}",
            "none: a LimitRange counts extended resources, and claims aren't any",
            "remove limits; a ResourceQuota can count claims",
        )
        return
    for i, limit in enumerate(scheduling.limits):
        if limit.max_cards % 1 and not platform.shares_cards:
            yield fault(
                ("scheduling", "limits", i, "maxCards"),
                f"{limit.max_cards:g} with platform {parts.platform}",
                "whole cards: only gpu-manager shares one",
                'write "maxCards: 1", or "platform: gpu-manager"',
            )


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
