"""Read YAML that is embedded in a string, such as a file in a ConfigMap, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import yaml

from .unknown import mapping

_LENGTH_LIMIT: Final = 64 * 1024
_DEPTH_LIMIT: Final = 32
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def embedded(value: object) -> Mapping[str, object]:
    """Return the mapping that a string contains as YAML, or an empty mapping.

    The result is also empty for long or deeply nested YAML, for several documents, and for YAML
    with aliases, because a few lines of aliases can expand to gigabytes. A value that is already a
    mapping is returned unchanged: chart values may be a string or a mapping.
    """
    if isinstance(value, str):
        return _parse_content(value) if len(value) <= _LENGTH_LIMIT else {}
    return mapping(value)


@lru_cache(maxsize=256)
def _parse_content(content: str) -> Mapping[str, object]:
    depth = 0
    try:
        for event in yaml.parse(content, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > _DEPTH_LIMIT:
                return {}
        return mapping(yaml.load(content, Loader=_Loader))  # noqa: S506  a safe loader
    except (yaml.YAMLError, ValueError):
        return {}
