"""Apply strategic merge patches to the spec of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from .unknown import mapping, sequence, text

_BY_NAME: Final = frozenset(
    {"containers", "initContainers", "volumes", "resourceClaims", "ephemeralContainers", "env"}
)
"""Lists that a patch merges by `name`: kubernetes v1.36.3 staging/src/k8s.io/api/core/v1/types.go
(patchMergeKey).
"""
_MAIN: Final = "main"
_SINGLE: Final = ("container", "script")
"""Fields with the container that a patch of Argo Workflows calls `main`."""


def patched(
    spec: Mapping[str, object], patches: Iterable[Mapping[str, object]]
) -> dict[str, object]:
    """Return a pod's spec with patches applied; a later patch overrides earlier patches."""
    result = dict(spec)
    for patch in patches:
        main = [
            container
            for container in sequence(patch.get("containers"))
            if _entry_name(container) == _MAIN
        ]
        single = next((key for key in _SINGLE if mapping(result.get(key))), None)
        if main and single:
            result[single] = _merge_spec(mapping(result[single]), mapping(main[0]))
            other_containers = [
                container
                for container in sequence(patch.get("containers"))
                if _entry_name(container) != _MAIN
            ]
            patch = {**patch, "containers": other_containers}
        result = _merge_spec(result, patch)
    return result


def _entry_name(value: object) -> str:
    return text(mapping(value).get("name"))


def _merge_spec(base: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = _merge_spec(mapping(result.get(key)), mapping(value))
        elif key in _BY_NAME and isinstance(value, list):
            result[key] = _by_name(sequence(result.get(key)), value)
        else:
            result[key] = value
    return result


def _by_name(base: Iterable[object], patch: Iterable[object]) -> list[object]:
    changes = {_entry_name(item): mapping(item) for item in patch}
    merged: list[object] = [
        _merge_spec(mapping(item), changes.pop(_entry_name(item)))
        if _entry_name(item) in changes
        else item
        for item in base
    ]
    return [*merged, *changes.values()]
