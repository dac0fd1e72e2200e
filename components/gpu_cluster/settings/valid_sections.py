"""The valid sections of a stack file, as input for the checks that compare several sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.nodes.scheduling import SchedulingSettings
from gpu_rules.faults import Location

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Level:
    """The overridable sections of the stack, of a pool or of a host.

    Attributes:
        written: Sections that the document has at this level, merged over those of `below`; None
            for an invalid section.
        location: Location in the document; empty for the stack.
        below: Level whose sections apply if this level has none; None for the stack.
        pool: The pool, if the level is a pool's.
        host: The host, if the level is a host's.
    """

    written: Mapping[str, Model | None]
    location: Location = ()
    below: Level | None = None
    pool: Pool | None = None
    host: Host | None = None

    def __str__(self) -> str:
        """Return the name of the level in messages, such as `pool a100`."""
        if self.host is not None:
            return f"host {self.host.name}"
        return f"pool {self.pool.name}" if self.pool is not None else "the stack"

    @property
    def has_gpus(self) -> bool:
        """Return True if the nodes of the pool, or the host's node, have GPUs."""
        if self.host is not None:
            return self.host.role.has_gpus
        return self.pool is not None and self.pool.gpus_per_node > 0

    @property
    def sections(self) -> dict[str, Model | None]:
        """Return all sections that apply at this level, by name; None for an invalid section."""
        return {**(self.below.sections if self.below is not None else {}), **self.written}

    def section(self, name: str) -> Model | None:
        """Return the section that applies at this level, or None if it is invalid."""
        if name in self.written or self.below is None:
            return self.written.get(name)
        return self.below.section(name)

    @property
    def driver(self) -> DriverSettings | None:
        """Return the section `driver` that applies at this level, or None if it is invalid."""
        section = self.section("driver")
        return section if isinstance(section, DriverSettings) else None

    @property
    def runtime(self) -> RuntimeSettings | None:
        """Return the section `runtime` that applies at this level, or None if it is invalid."""
        section = self.section("runtime")
        return section if isinstance(section, RuntimeSettings) else None

    def place(self, section: str, key: str) -> Location:
        """Return the location in the document where the value of a setting comes from.

        Args:
            section: Name of the section, such as `driver`.
            key: Name of the setting in the section's model, such as `kernel_module_type`.
        """
        level_section = self.section(section)
        if self.below is not None and (
            section not in self.written
            or getattr(self.below.section(section), key, None) == getattr(level_section, key, None)
        ):
            return self.below.place(section, key)
        alias = type(level_section).model_fields[key].alias if level_section is not None else None
        return (*self.location, section, alias or key)


@dataclass(frozen=True, kw_only=True)
class NodeLabels:
    """Declared labels of all nodes of a pool, or of one node with additional labels.

    Attributes:
        index: Position of the pool in the document.
        node: Name of the node; empty for all nodes of the pool.
        labels: Labels of the pool, overridden by the node's own.
        own: Labels that the document has at this place.
    """

    pool: Pool
    index: int
    node: str
    labels: Mapping[str, str]
    own: Mapping[str, str]

    @property
    def location(self) -> Location:
        """Return the location of the labels in the document."""
        if self.node:
            return ("scheduling", "nodes", self.node, "labels")
        return ("pools", self.index, "labels")


@dataclass(frozen=True, kw_only=True)
class ValidSections:
    """The sections of a stack file that passed their own validation.

    Attributes:
        pools: Pools by their position in the document.
        hosts: Hosts by their position in the document.
        platform: Name of the platform, or None if the name is unknown.
        levels: Overridable sections of each valid pool, then of each valid host.
        sections: All other valid sections, by their names in `Cluster`.
        given: Keys that the document contains.
        complete: True if every pool is valid.
        maintenance: Names and ranges of nodes in maintenance. Empty if a host is invalid, because
            the name of that host is then unknown.
    """

    pools: Mapping[int, Pool]
    hosts: Mapping[int, Host]
    platform: str | None
    levels: tuple[Level, ...] = ()
    sections: Mapping[str, Model] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    complete: bool = True
    maintenance: tuple[str, ...] = ()

    def section(self, model: type[M]) -> M | None:
        """Return the section of a model, or None if the section is invalid or not declared."""
        return next(
            (section for section in self.sections.values() if isinstance(section, model)), None
        )

    @property
    def gpu_levels(self) -> tuple[Level, ...]:
        """Return the overridable sections of the pools and hosts with GPUs."""
        return tuple(level for level in self.levels if level.has_gpus)

    @property
    def host_levels(self) -> tuple[Level, ...]:
        """Return the overridable sections of the hosts."""
        return tuple(level for level in self.levels if level.host is not None)

    def labels(self) -> Iterator[NodeLabels]:
        """Yield the labels of each pool, and of each node that has labels in addition to these."""
        scheduling = self.section(SchedulingSettings)
        node_settings = scheduling.nodes if scheduling is not None else {}
        for i, pool in self.pools.items():
            yield NodeLabels(pool=pool, index=i, node="", labels=pool.labels, own=pool.labels)
            for name in pool.node_names if node_settings else ():
                if name in node_settings and node_settings[name].labels:
                    labels = node_settings[name].labels_over(pool.labels)
                    yield NodeLabels(
                        pool=pool, index=i, node=name, labels=labels, own=node_settings[name].labels
                    )

    def labels_of(self, pool: Pool, node: str) -> Mapping[str, str]:
        """Return the declared labels of a node of a pool."""
        scheduling = self.section(SchedulingSettings)
        node_settings = scheduling.nodes.get(node) if scheduling is not None else None
        return node_settings.labels_over(pool.labels) if node_settings is not None else pool.labels
