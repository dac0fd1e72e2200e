"""Merge the values of the stack, a pool and a host; the host's values override the pool's.

`resolved` changes the document before the models read it, so that each section of a host is
validated as a whole: a host that sets only `driver.version` still has the stack's `driver.source`.
Mappings are merged key by key, and lists are replaced. A section that a pool or host doesn't write
is inherited as a whole, after the models have read the document (`levels`, `completed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.driver import SOURCES_OF, DriverSource
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.hosts.ssh import Reach, SshSettings
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import Level
from gpu_rules.faults import Fault

OVERRIDABLE = tuple(NodeSections.model_fields)
"""Sections of the stack that a pool and a host can override."""
REACH = tuple(Reach.model_fields)
"""Keys that override the stack's `ssh`: in the `ssh` of a pool, or directly in a host."""

Document = Mapping[str, Any]


def resolved(document: Document) -> dict[str, Any]:
    """Return the document with all overrides written out in its pools and hosts."""
    filled = dict(document)
    pools = _items_of_key(document, "pools")
    if pools:
        filled["pools"] = [
            {**pool, **_merge_sections(document, pool)} if isinstance(pool, Mapping) else pool
            for pool in pools
        ]
    if hosts := _items_of_key(document, "hosts"):
        by_node = _pool_by_node(pools)
        filled["hosts"] = [
            _merge_host(document, by_node, host) if isinstance(host, Mapping) else host
            for host in hosts
        ]
    return filled


def _merge_host(
    document: Document, pools: Mapping[str, Document], host: Document
) -> dict[str, Any]:
    pool = _pool_of(pools, host)
    reach = {**_ssh_values(document.get("ssh")), **_ssh_values(pool.get("ssh"))}
    return {**reach, **host, **_merge_sections(document, pool, host)}


def _merge_sections(document: Document, *levels: Document) -> dict[str, Any]:
    """Return the sections that a pool or host overrides, merged over stack, pool and host."""
    sections = {}
    for section in OVERRIDABLE:
        overrides = [level[section] for level in levels if section in level]
        if not overrides:
            continue
        if wrong := [value for value in overrides if not isinstance(value, Mapping)]:
            sections[section] = wrong[-1]  # The models reject a section that is no mapping later.
            continue
        merged: Any = document.get(section, {})
        for override in overrides:
            if section == "driver" and "source" in override:
                merged = _without_effect(merged, override["source"])
            merged = _merge_over(merged, override)
        sections[section] = merged
    return sections


def _without_effect(driver: Any, source: object) -> Any:
    """Return the driver's inherited settings without those that another source doesn't use."""
    if not isinstance(driver, Mapping) or source not in set(DriverSource):
        return driver
    dropped = {to_camel(name) for name, sources in SOURCES_OF.items() if source not in sources}
    return {key: value for key, value in driver.items() if key not in dropped}


def _merge_over(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: _merge_over(below.get(key), value) for key, value in above.items()}}


def _ssh_values(ssh: object) -> dict[str, Any]:
    """Return the values of `user`, `port` and `bastion` in an `ssh` section that are valid."""
    if isinstance(ssh, SshSettings):
        return {key: getattr(ssh, key) for key in REACH}
    valid = {}
    for key in REACH:
        if isinstance(ssh, Mapping) and key in ssh:
            with suppress(ValidationError):
                valid[key] = getattr(SshSettings.model_validate({key: ssh[key]}), key)
    return valid


def _pool_by_node(pools: list[Any]) -> dict[str, Document]:
    """Return the pool of each node, for nodes that a pool lists by name.

    A pool that selects its nodes by label lists no names, so it overrides nothing on hosts.
    """
    pool_of: dict[str, Document] = {}
    for pool in pools:
        patterns = pool.get("nodes") if isinstance(pool, Mapping) else None
        for pattern in patterns if isinstance(patterns, list | tuple) else ():
            # The model of the pool rejects an invalid range later.
            with suppress(ValueError, TypeError):
                pool_of |= dict.fromkeys(expand(pattern), pool)
    return pool_of


def _pool_of(pools: Mapping[str, Document], host: Document) -> Document:
    node = host.get("node", host.get("name"))
    return pools.get(node, {}) if isinstance(node, str) else {}


def _items_of_key(document: Document, key: str) -> list[Any]:
    value = document.get(key)
    return list(value) if isinstance(value, list | tuple) else []


Written = Mapping[str, Model | None]
"""Sections that the document has in a pool or host, by name; None for an invalid section."""


def levels(
    stack: Written,
    pools: Mapping[int, tuple[Pool, Written]],
    hosts: Mapping[int, tuple[Host, Written]],
    *,
    all_pools: bool,
) -> tuple[Level, ...]:
    """Return the sections of each pool and each host, which the sections of the stack complete.

    Args:
        stack: Sections of the stack.
        pools: Valid pools and their sections, by their position in the document.
        hosts: Valid hosts and their sections, by their position in the document.
        all_pools: True if every pool is valid; if not, hosts outside of these pools are left out.
    """
    base = Level(written=stack)
    of_pools = {
        i: Level(written=written, location=("pools", i), below=base, pool=pool)
        for i, (pool, written) in pools.items()
    }
    by_node = {node: of_pools[i] for i, (pool, _) in pools.items() for node in pool.node_names}
    return (
        *of_pools.values(),
        *(
            Level(
                written=written,
                location=("hosts", i),
                below=by_node.get(host.node, base),
                host=host,
            )
            for i, (host, written) in hosts.items()
            if all_pools or host.node in by_node
        ),
    )


def written_sections(member: NodeSections) -> Written:
    """Return the sections that the document has in a valid pool or host."""
    return {name: getattr(member, name) for name in OVERRIDABLE if name in member.model_fields_set}


def origins(document: Document) -> dict[str, dict[str, str]]:
    """Return for each host the values that its pool or the host itself overrides.

    >>> origins({"driver": {"version": "595.91.07"},
    ...          "hosts": [{"name": "gpu-1", "driver": {"version": "580.65.06"}}]})
    {'gpu-1': {'driver.version = 580.65.06': 'host gpu-1'}}
    """
    sources = {}
    pools = _pool_by_node(_items_of_key(document, "pools"))
    for host in _items_of_key(document, "hosts"):
        pool = _pool_of(pools, host)
        values: dict[str, tuple[str, str]] = {}
        for origin, level in ((f"pool {pool.get('name')}", pool), (f"host {host['name']}", host)):
            reach = level.get("ssh", {}) if level is pool else level
            leaves = {section: level[section] for section in OVERRIDABLE if section in level}
            # A host's SSH port is part of its address, so it is not reported as an override.
            leaves |= {f"ssh.{key}": reach[key] for key in REACH if key in reach and key != "port"}
            values |= {path: (str(value), origin) for path, value in _walk_leaves("", leaves)}
        if values:
            sources[host["name"]] = {
                f"{path} = {value}": origin for path, (value, origin) in values.items()
            }
    return sources


def _walk_leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _walk_leaves(f"{path}.{key}" if path else str(key), below)
    else:
        yield path, value


def own_problems(faults: list[Fault]) -> list[Fault]:
    """Return the faults without the copies in pools and hosts that inherit a faulty value."""
    reported = {(fault.location, fault.found) for fault in faults}
    of_pools = {(at[2:], text) for at, text in reported if at[:1] == ("pools",)}

    def inherited(fault: Fault) -> bool:
        level, *path = fault.location
        if level not in ("pools", "hosts") or len(path) < 2 or path[1] not in OVERRIDABLE:
            return False
        below = tuple(path[1:])
        if (below, fault.found) in reported:
            return True
        return level == "hosts" and (below, fault.found) in of_pools

    return [fault for fault in faults if not inherited(fault)]
