"""YAML inside a text, such as a ConfigMap's file: read with limits, or not at all."""

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
    """The mapping that a text holds as YAML; empty for everything else.

    Long or deep texts, several documents and aliases (a few lines of them stand for gigabytes)
    are not read. A mapping is given back as it is: chart values may hold either.
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
