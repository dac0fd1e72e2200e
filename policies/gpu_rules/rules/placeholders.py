"""Replace placeholders of templates, such as `${GPUS}` and `{{ gpus }}`, by `UNKNOWN`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .unknown import UNKNOWN

_VARIABLE: Final = re.compile(r"\$\{[^{}\s]+\}|\{\{[^{}]*\}\}|\$[A-Za-z_]\w*")
_PLACEHOLDER: Final = re.compile(r"\s*(?:\$\{[^{}]+\}|\$[A-Za-z_]\w*|\{\{.*\}\})\s*", re.DOTALL)
_AS_WRITTEN: Final = frozenset({"apiVersion", "kind", "metadata", "command", "args"})
"""Fields in which a placeholder is kept: it is part of a name, or a variable of a shell."""


def with_unknowns(value: object) -> object:
    """Return a document with `UNKNOWN` for each value that is a placeholder, such as `${GPUS}`.

    The name of a container image is unknown even if only a part of it is a placeholder.
    """
    if isinstance(value, Mapping):
        return {
            key: item if key in _AS_WRITTEN else _hide_unknown(key, item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_unknowns(item) for item in value]
    if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
        return UNKNOWN
    return value


def _hide_unknown(key: object, value: object) -> object:
    if key == "image" and isinstance(value, str) and _VARIABLE.search(value):
        return UNKNOWN
    return with_unknowns(value)
