"""Compare CustomResourceDefinitions in a cluster with those of a chart.

Helm installs the definitions of a chart's folder `crds/` only if they are missing, and never
updates or removes them (Helm documentation, "Custom Resource Definitions"). The API server drops
fields that a definition lacks without an error, so an old definition loses settings silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Field of a schema that keeps unknown fields (Kubernetes documentation, "Field pruning").
_KEEPS = "x-kubernetes-preserve-unknown-fields"


def lacking_fields(live: Mapping[str, Any], charts: Mapping[str, Any]) -> list[str]:
    """Return the fields of a chart's definition that the cluster's definition lacks.

    Args:
        live: The definition in the cluster.
        charts: The definition in the chart.

    Returns:
        Paths such as `v1 spec.driver.env`, and `v1` for a version that is not served.
    """
    served = {name: schema for name, schema in _served_schemas(live)}
    result: list[str] = []
    for name, schema in _served_schemas(charts):
        if name not in served:
            result.append(name)
        else:
            result += [f"{name} {path}" for path in _lacking_fields(served[name], schema, "")]
    return result


def lost_fields(declared: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield the fields of a manifest that an object in the cluster does not have.

    A field with another value is present, because a controller may have changed it. Empty and zero
    values are skipped, because controllers omit them when they write objects (`omitempty`).

    Args:
        declared: The manifest as it was applied.
        live: The object as the API server returned it.
        path: Path of `declared` in its manifest, with a dot at its end; empty for the manifest.
    """
    if isinstance(declared, Mapping):
        live_fields = live if isinstance(live, Mapping) else {}
        for key, value in declared.items():
            if _is_empty(value):
                continue
            if key not in live_fields:
                yield f"{path}{key}"
            else:
                yield from lost_fields(value, live_fields[key], f"{path}{key}.")
    elif isinstance(declared, list) and isinstance(live, list) and len(declared) == len(live):
        for index, (declared_item, live_item) in enumerate(zip(declared, live, strict=True)):
            yield from lost_fields(declared_item, live_item, f"{path}{index}.")


def _is_empty(value: Any) -> bool:
    """Return True for a zero value, and for a mapping or list with only zero values inside."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    if isinstance(value, list):
        return all(map(_is_empty, value))
    return not value


def _served_schemas(definition: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the schema of each served version."""
    versions = _mapping_or_empty(definition.get("spec")).get("versions")
    for version in versions if isinstance(versions, list) else ():
        entry = _mapping_or_empty(version)
        if entry.get("served"):
            schema = _mapping_or_empty(
                _mapping_or_empty(entry.get("schema")).get("openAPIV3Schema")
            )
            yield str(entry.get("name")), schema


def _lacking_fields(live: Mapping[str, Any], charts: Mapping[str, Any], path: str) -> Iterator[str]:
    if live.get(_KEEPS) is True:
        return
    live_properties = _mapping_or_empty(live.get("properties"))
    for key, schema in _mapping_or_empty(charts.get("properties")).items():
        if key not in live_properties:
            yield f"{path}{key}"
        else:
            yield from _lacking_fields(
                _mapping_or_empty(live_properties[key]), _mapping_or_empty(schema), f"{path}{key}."
            )
    for inner in ("items", "additionalProperties"):
        if inner in charts and inner in live:
            yield from _lacking_fields(
                _mapping_or_empty(live[inner]), _mapping_or_empty(charts[inner]), path
            )


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
