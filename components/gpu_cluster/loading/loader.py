"""Turn a plain mapping into a `Cluster`, or report all of its faults together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin
from weakref import WeakValueDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from gpu_cluster.base.confidential import in_addresses
from gpu_cluster.base.explain import explain_all
from gpu_cluster.base.model import Model
from gpu_cluster.loading import validation_image
from gpu_cluster.loading.cross import validate
from gpu_cluster.loading.inventory import (
    OVERRIDABLE,
    Written,
    levels,
    own_problems,
    resolved,
    written_sections,
)
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT, NodeNames, count_names
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.platform import NAMES
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import ConfigError, Fault, fault, show

_loaded: WeakValueDictionary[int, Cluster] = WeakValueDictionary()
"""What `load` returned, by identity: a changed copy is another object, and not checked yet."""

POOL_LIMIT = 200
"""Maximum number of pools. Some checks compare each pool with each other pool."""
_WANTED = "a mapping with version, kubernetes, pools and platform"
_FORMAT = "v1, the newest version of the format that this release of the program knows"


def load(document: Mapping[str, Any]) -> Cluster:
    """Return the cluster that a document declares.

    Args:
        document: Value of the structured key `gpu-cluster:cluster`, with camelCase keys, as
            `pulumi.Config().require_object("cluster")` returns it.

    Raises:
        ConfigError: The document has faults; the error lists all of them in document order.
    """
    if not isinstance(document, Mapping):
        raise ConfigError([fault((), show(document), _WANTED, "see Pulumi.dev.yaml")])
    if is_newer(document.get("version")):
        # The other sections may be right in the newer format, so nothing is said about them.
        cure = "use a newer release of this program, or the stack file as this release reads it"
        raise ConfigError([fault(("version",), show(document["version"]), _FORMAT, cure)])
    if excess := list(_check_list_lengths(document)):
        # Nothing else is checked: other checks need time and memory for each name.
        raise ConfigError(excess)
    written, document = document, with_derived_defaults(document)
    faults = list(in_addresses(document))
    settings = None
    try:
        settings = ClusterSettings.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        faults += explain_all(ClusterSettings, error.errors(include_url=False), written)
    valid_sections = _parse_valid_sections(document) if settings is None else sections_of(settings)
    faults += validate(valid_sections)
    if settings is None or faults:
        raise ConfigError(sorted(own_problems(faults), key=_DocumentOrder(document)))
    level_at = {level.location: level for level in valid_sections.levels}
    members = {
        name: tuple(
            member.with_inherited(level_at[name, i].sections)
            for i, member in enumerate(getattr(settings, name))
        )
        for name in ("pools", "hosts")
    }
    cluster = settings.model_copy(update=members)
    _loaded[id(cluster)] = cluster
    return cluster


def _check_list_lengths(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each list that is too long for the checks, or for a cluster."""
    pools, hosts = (_as_items(document.get(key)) for key in ("pools", "hosts"))
    sections = [pool for pool in pools if isinstance(pool, Mapping)]
    patterns = [name for pool in sections for name in _as_items(pool.get("nodes"))]
    # A single count that is too large is left out: it gets a fault of its own elsewhere.
    selected = sum(
        size
        for size in (pool.get("count") for pool in sections)
        if type(size) is int and 0 < size <= NODE_LIMIT
    )
    counts = (
        (("pools",), len(pools), "pools", POOL_LIMIT),
        (("pools",), _count_nodes(patterns) + selected, "nodes", NODE_LIMIT),
        (("hosts",), len(hosts), "hosts", NODE_LIMIT),
        (
            ("maintenance",),
            _count_nodes(_as_items(document.get("maintenance"))),
            "names",
            NODE_LIMIT,
        ),
    )
    for location, number, noun, limit in counts:
        if number > limit:
            yield fault(
                location, f"{number} {noun}", f"at most {limit}", "split the cluster into several"
            )


def _as_items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _count_nodes(patterns: Sequence[object]) -> int:
    counts = (count_names(pattern) for pattern in patterns if isinstance(pattern, str))
    # A single pattern that yields too many names has a fault with its own location.
    return sum(count for count in counts if count <= NODE_LIMIT)


def is_newer(version: object) -> bool:
    """Return True if a later release of the program may have this version of the format."""
    return isinstance(version, str) and bool(re.fullmatch(r"v([2-9]|[1-9][0-9]{1,3})", version))


def is_loaded(settings: object) -> bool:
    """Check whether `load` returned this object, complete and without faults."""
    return _loaded.get(id(settings)) is settings


def with_derived_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with defaults that depend on other sections.

    Overrides of pools and hosts are written out (`gpu_cluster.loading.inventory`), and the platform
    adds its own defaults. Invalid values stay, and the models reject them later.
    """
    filled = resolved(document)
    platform = filled.get("platform")
    if isinstance(platform, str) and platform in NAMES:
        filled |= named(platform).defaults(filled)
    filled |= validation_image.defaults(filled)
    return filled


def sections_of(cluster: Cluster) -> ValidSections:
    """Return the sections of a cluster, as input of the checks that compare several sections."""
    fields = type(cluster).model_fields
    sections = {name: value for name, value in cluster if isinstance(value, Model)}
    stack = {name: sections.pop(name) for name in OVERRIDABLE if name in sections}
    pools = {i: (pool, written_sections(pool)) for i, pool in enumerate(cluster.pools)}
    hosts = {i: (host, written_sections(host)) for i, host in enumerate(cluster.hosts)}
    return ValidSections(
        pools=dict(enumerate(cluster.pools)),
        hosts=dict(enumerate(cluster.hosts)),
        levels=levels(stack, pools, hosts, all_pools=True),
        maintenance=cluster.maintenance,
        platform=cluster.platform,
        sections=sections,
        given=frozenset(fields[name].alias or name for name in cluster.model_fields_set),
    )


def _parse_valid_sections(document: Mapping[str, Any]) -> ValidSections:
    """Return the sections that are valid on their own, as input for the checks between sections."""
    pools = dict(_parse_valid_items(Pool, document.get("pools")))
    hosts = dict(_parse_valid_items(Host, document.get("hosts")))
    platform = document.get("platform")
    complete = _all_valid(pools, document.get("pools"))
    sections = {}
    for name, model, is_optional in _section_models():
        written = document.get(to_camel(name), None if is_optional else {})
        if written is not None and (section := _parse_item(model, written)) is not None:
            sections[name] = section
    stack = {name: sections.pop(name) for name in OVERRIDABLE if name in sections}
    return ValidSections(
        pools={i: pool for i, (pool, _) in pools.items()},
        hosts={i: host for i, (host, _) in hosts.items()},
        levels=levels(stack, pools, hosts, all_pools=complete),
        platform=platform if isinstance(platform, str) and platform in NAMES else None,
        sections=sections,
        given=frozenset(document),
        complete=complete,
        maintenance=(
            _parse_maintenance(document)
            if _all_valid(hosts, document.get("hosts", ()) or ())
            else ()
        ),
    )


def _section_models() -> Iterator[tuple[str, type[Model], bool]]:
    """Yield name and model of each section of the stack file, and whether it is optional."""
    for name, field in ClusterSettings.model_fields.items():
        options = get_args(field.annotation) or (field.annotation,)
        models = [o for o in options if isinstance(o, type) and issubclass(o, Model)]
        if models and get_origin(field.annotation) is not tuple:
            yield name, models[0], len(options) > 1


M = TypeVar("M", bound=Model)


def _parse_valid_items(model: type[M], items: object) -> Iterator[tuple[int, tuple[M, Written]]]:
    """Yield the valid pools or hosts of a list, with the sections that they override.

    An invalid section does not hide the pool or host from the checks of other settings.
    """
    models = {name: section for name, section, _ in _section_models()}
    for index, item in enumerate(_as_items(items)):
        if not isinstance(item, Mapping):
            continue
        overrides = {name: item[name] for name in OVERRIDABLE if name in item}
        valid = _parse_item(
            model, {key: value for key, value in item.items() if key not in overrides}
        )
        if valid is not None:
            yield (
                index,
                (valid, {name: _parse_item(models[name], overrides[name]) for name in overrides}),
            )


def _parse_item(model: type[M], item: object) -> M | None:
    try:
        return model.model_validate(item, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _all_valid(models: Mapping[int, object], listed: object) -> bool:
    """Return True if every entry of a list in the stack file was valid."""
    return isinstance(listed, list | tuple) and len(models) == len(listed)


def _parse_maintenance(document: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return TypeAdapter(NodeNames).validate_python(document.get("maintenance", ()))
    except ValidationError:
        return ()


class _DocumentOrder:
    """A sort key that orders faults as in the document; missing keys come last in their mapping."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Create a sort key for the faults of a document."""
        self._document = document

    def __call__(self, fault: Fault) -> tuple[int, ...]:
        """Return the position of a fault in the document."""
        position: list[int] = []
        value: Any = self._document
        for step in fault.location:
            if isinstance(step, str) and isinstance(value, Mapping):
                keys = list(value)
                position.append(keys.index(step) if step in value else len(keys))
                value = value.get(step)
            elif isinstance(step, int) and isinstance(value, list | tuple):
                position.append(step)
                value = value[step] if step < len(value) else None
        return tuple(position)
