"""Refuse sections of pools and hosts that can't apply to the nodes of this pool or host alone."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.valid_sections import Level, ValidSections
from gpu_rules.faults import Fault, fault


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for sections of pools and hosts that can't apply to these nodes alone."""
    yield from _check_shared_settings(sections)
    yield from _one_container(sections)
    yield from _by_selector(sections)


def _check_shared_settings(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault for each pool or host that overrides a setting of the platform's release."""
    if sections.platform is None:
        return
    shared = [
        (level, named(sections.platform).shared(level.driver, level.runtime))
        for level in sections.gpu_levels
        if level.driver is not None and level.runtime is not None
    ]
    first: dict[tuple[str, str], dict[object, Level]] = {}
    for level, settings in shared:
        for setting, value in settings.items():
            first.setdefault(setting, {}).setdefault(value, level)
    for level, settings in shared:
        for (section, key), value in settings.items():
            other_values = [
                value_and_level
                for value_and_level in first[section, key].items()
                if value_and_level[0] != value
            ]
            location = level.place(section, key) if other_values else ()
            if location and location[:2] == level.location:
                yield fault(
                    location,
                    f"{value} for {level}, and {other_values[0][0]} for {other_values[0][1]}",
                    f"one value for all nodes with GPUs: platform {sections.platform} is one "
                    "release on all of them",
                    f"remove it here, and write it in section {section} of the stack",
                )


def _one_container(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for hosts whose driver comes by a container, but not that of their pool.

    The driver's DaemonSet runs on all nodes of a pool.
    """
    for level in sections.host_levels:
        host_driver, pool = level.driver, level.below.driver if level.below is not None else None
        if (
            host_driver is None
            or pool is None
            or host_driver.source is pool.source
            or not level.has_gpus
        ):
            continue
        if host_driver.in_container or pool.in_container:
            yield fault(
                level.place("driver", "source"),
                f"{host_driver.source}, in {level.below} with driver.source {pool.source}",
                "one source for all nodes of a pool: a container brings the driver to all of them",
                "remove it, or declare the node in a pool of its own",
            )


def _by_selector(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for overrides of hosts by a pool that does not name its nodes.

    Which hosts belong to such a pool is known only after the cluster was inspected.
    """
    nodes = {node for pool in sections.pools.values() for node in pool.node_names}
    inheriting: dict[tuple[bool, str], Level] = {}
    for host in sections.host_levels:
        if host.host is not None and host.host.node not in nodes:
            for name in ("ssh", *NodeSections.model_fields):
                if name not in host.written:
                    inheriting.setdefault((host.has_gpus, name), host)
    for level in sections.levels:
        if level.pool is None or level.pool.selector is None:
            continue
        for name in (*level.written, *({"ssh"} & level.pool.model_fields_set)):
            if host_name := inheriting.get((level.has_gpus, name)):
                yield fault(
                    (*level.location, name),
                    f"a section in a pool by selector, with {host_name} in no pool by name",
                    "a section that says which hosts it applies to: a selector names none",
                    f"write {name} in the hosts, or list the nodes of the pool by name",
                )
