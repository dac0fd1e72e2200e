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

    Empty is also the result for long or deeply nested texts, several documents and aliases, a few
    lines of which can expand to gigabytes. A value that is a mapping already is returned unchanged,
    because chart values may have either form.
    """
    if isinstance(value, str):
        return _read(value) if len(value) <= _LENGTH_LIMIT else {}
    return mapping(value)


@lru_cache(maxsize=256)
def _read(content: str) -> Mapping[str, object]:
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
