"""Recognise manifests, and templates and patches, which can be checked only after rendering."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..rules.unknown import UNKNOWN, mapping, text

TEMPLATE: Final = "template"
PATCH: Final = "patch"

_MANIFEST: Final = re.compile(
    r"""^(?:- )?(?:apiVersion|kind)[ \t]*:|^[ \t]*\{?[ \t]*"(?:apiVersion|kind)"[ \t]*:""",
    re.MULTILINE,
)
_MARK: Final = re.compile(r"\{\{|\{%|\$\{")
_VARIABLE: Final = re.compile(r"\$\{[^{}\s]+\}|\{\{[^{}]*\}\}|\$[A-Za-z_]\w*")
_PLACEHOLDER: Final = re.compile(r"\s*(?:\$\{[^{}]+\}|\$[A-Za-z_]\w*|\{\{.*\}\})\s*", re.DOTALL)
_GPU: Final = re.compile(
    r"nvidia\.com(?:/|~1)(?:gpu|mig-)|amd\.com(?:/|~1)gpu|gpu\.intel\.com(?:/|~1)|"
    r"tencent\.com(?:/|~1)vcuda|deviceClassName|[Rr]equestGPU"
)
_OPERATIONS: Final = frozenset({"add", "replace", "remove", "move", "copy", "test"})
_AS_WRITTEN: Final = frozenset({"apiVersion", "kind", "metadata", "command", "args"})
"""Fields in which a placeholder is kept: it is part of a name, or a variable of a shell."""


def is_manifest(written: str) -> bool:
    """Return whether a text looks like a manifest, even if it is not valid YAML."""
    return _MANIFEST.search(written) is not None


def is_template(written: str) -> bool:
    """Return whether a text has template placeholders such as `{{ … }}`, `{% … %}` or `${…}`."""
    return _MARK.search(written) is not None


def line_with_gpus(written: str) -> int | None:
    """Return the number of the first line that names a GPU resource, counted from 1, or None."""
    found = _GPU.search(written)
    return written.count("\n", 0, found.start()) + 1 if found else None


def is_json_patch(value: object) -> bool:
    """Return whether a value is a JSON patch (RFC 6902): a list of operations."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            text(mapping(item).get("op")) in _OPERATIONS and "path" in mapping(item)
            for item in value
        )
    )


def with_unknowns(value: object) -> object:
    """Return a document with `UNKNOWN` for each value that is a placeholder, such as `${GPUS}`.

    The name of a container image is unknown even if only a part of it is a placeholder.
    """
    if isinstance(value, Mapping):
        return {
            key: item if key in _AS_WRITTEN else _known(key, item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_unknowns(item) for item in value]
    if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
        return UNKNOWN
    return value


def _known(key: object, value: object) -> object:
    if key == "image" and isinstance(value, str) and _VARIABLE.search(value):
        return UNKNOWN
    return with_unknowns(value)
