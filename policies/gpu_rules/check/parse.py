"""Parse YAML or JSON text to plain data, or raise an error with the line number.

The values are built from libyaml's events without recursion. PyYAML's own composer and constructor
are not used: they crash the process at a nesting of about 10,000 levels, accept duplicate keys, and
are four times slower.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

import yaml

from ..faults import InputError
from .problem import show
from .scalar import Scalar, resolve

# Maximum size of a document, in characters. A list, as `kubectl get pods -A -o json` prints it, may
# be larger, but none of its items. The API server accepts requests of up to 3 MiB.
SIZE_LIMIT: Final = 8 * 1024 * 1024
DEPTH_LIMIT: Final = 200
# Maximum number of values that YAML aliases may add to a text.
ALIAS_LIMIT: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_BINARY: Final = _TAG + "binary"
_RESOLVED: Final = frozenset({_TAG + name for name in ("int", "float", "bool", "null")})
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEMPLATE: Final = "{{"
_ITEMS: Final = "items"
_SMALLER: Final = (
    f"at most {SIZE_LIMIT}, for a list in each item",
    "Write each object as a separate document, separated by ---.",
)


def documents(text: str) -> list[object]:
    """Return the values of all documents in a text; most texts have one document.

    Raises:
        InputError: The text is not valid YAML or JSON, or exceeds a limit for size, nesting or
            aliases.
    """
    if len(text) > SIZE_LIMIT:
        if _ITEMS not in text:
            raise InputError(f"a document of {len(text)} characters", *_SMALLER)
    elif text.lstrip()[:1] == "{":
        try:
            return [json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)]
        except (ValueError, RecursionError):
            # The text is YAML with a flow mapping, or invalid JSON. The YAML parser below reads the
            # former, and finds the line of the mistake in the latter.
            pass
    try:
        return list(_Builder(text).documents())
    except InputError as error:
        raise _unrendered(error, text) from None
    except yaml.YAMLError as error:
        raise _syntax(error, text) from None
    except UnicodeEncodeError as error:
        raise InputError(
            "half of a surrogate pair",
            "whole characters",
            "Write the character itself.",
            text.count("\n", 0, error.start) + 1,
        ) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError
    return mapping


def _refuse(_: str) -> None:
    raise ValueError


def _syntax(error: yaml.YAMLError, text: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML"
    # libyaml reports an unclosed bracket or quote in a line after the end of the text.
    last = text.rstrip().count("\n") + 1
    line = min(mark.line + 1, last) if mark else None
    if line is None and isinstance(position := getattr(error, "position", None), int):
        line = text.encode(errors="replace").count(b"\n", 0, position) + 1
    around = "\n".join(text.splitlines()[max(0, (line or 1) - 2) : (line or 1) + 1])
    if _TEMPLATE in around:
        return _template(line)
    return InputError(_reworded(str(reason)), "YAML or JSON", "Correct the line.", line)


def _unrendered(error: InputError, text: str) -> InputError:
    """Return the error, or a clearer error if its line contains a template placeholder `{{ … }}`.

    YAML parses `{{ .Values.x }}` as a mapping with a mapping as its key. An error about such a key
    would not help the user.
    """
    line = "".join(text.splitlines()[(error.line or 1) - 1 :][:1])
    return _template(error.line) if "}}" in line.partition(_TEMPLATE)[2] else error


def _template(line: int | None) -> InputError:
    return InputError(
        "a template", "YAML", "Render it first: helm template … | gpu-rules check -", line
    )


def _reworded(problem: str) -> str:
    """Reword libyaml's error message so that it fits after the word "found" in a message."""
    for prefix in ("did not find expected ", "could not find expected "):
        if problem.startswith(prefix):
            return f"no {problem.removeprefix(prefix)}"
    return problem.removeprefix("found ")


_NO_KEY: Final = object()
_MERGE: Final = object()
_Open = tuple[Any, Any, int, Any, set[str]]


class _Builder:
    """Builder of plain data from the YAML events of a text."""

    def __init__(self, text: str) -> None:
        """Create the event parser for a text."""
        self._loader = LOADER(text)
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0
        self._aliased = 0

    def documents(self) -> Iterator[object]:
        """Yield the value of each document in the text."""
        loader = self._loader
        try:
            # The first event is the start of the stream.
            loader.get_event()
            while type(loader.get_event()) is yaml.DocumentStartEvent:
                self._anchors.clear()
                yield self._value()
                # This event is the end of the document.
                loader.get_event()
        finally:
            loader.dispose()

    def _value(self) -> object:
        """Build the value whose events come next, with all nested values."""
        get_event = self._loader.get_event
        # State of the mappings and lists that enclose the current collection.
        above: list[_Open] = []
        into: Any = None
        key: Any = _NO_KEY
        # Keys that a YAML merge (<<) has added to the current mapping, which may set them again.
        merged: set[str] = set()
        value: Any
        while True:
            event = get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._count += 1
                value = _scalar(event)
                if event.anchor:
                    self._anchors[event.anchor] = (value, 1)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                above.append((into, event, self._count, key, merged))
                self._count += 1
                if len(above) > DEPTH_LIMIT:
                    raise _fault(
                        event,
                        f"values more than {DEPTH_LIMIT} levels deep",
                        "a manifest",
                        "Remove the nesting.",
                    )
                into = {} if kind is yaml.MappingStartEvent else []
                key, merged = _NO_KEY, set()
                continue
            elif kind is yaml.AliasEvent:
                value = self._alias(event)
            # All other events are the end of a mapping or list.
            else:
                value = into
                into, start, before, key, merged = above.pop()
                if start.anchor:
                    self._anchors[start.anchor] = (value, self._count - before)
                size = event.end_mark.index - start.start_mark.index
                if size > SIZE_LIMIT and not (
                    key == _ITEMS if type(value) is list else _ITEMS in value
                ):
                    raise _fault(start, f"a value of {size} characters", *_SMALLER)
            if into is None:
                return value
            if type(into) is list:
                into.append(value)
            elif key is _NO_KEY:
                key = _key(event, value, into, merged)
            elif key is _MERGE:
                for mapping in _mergeable(event, value):
                    into.update(mapping)
                    merged.update(mapping)
                key = _NO_KEY
            else:
                into[key] = value
                key = _NO_KEY

    def _alias(self, event: Any) -> object:
        if event.anchor not in self._anchors:
            raise _fault(
                event,
                f"the alias *{event.anchor} of no anchor before it",
                f"&{event.anchor} on a value that ends before it",
                "Write the value out.",
            )
        value, size = self._anchors[event.anchor]
        self._count += size
        self._aliased += size
        if self._aliased > ALIAS_LIMIT:
            raise _fault(
                event,
                f"more than {ALIAS_LIMIT} values that come from aliases",
                "a manifest",
                "Write the values out.",
            )
        return value


def _scalar(event: Any) -> Scalar:
    if event.tag == _BINARY:
        return _decoded(event)
    if event.implicit[0] or event.tag in _RESOLVED:
        return resolve(event.value)
    value: str = event.value
    return value


def _decoded(event: Any) -> str:
    """Return the decoded text of a base64 value with the YAML tag `!!binary`.

    go.yaml.in/yaml/v2, which kubectl uses, also decodes such values, even in keys (resolve.go).
    """
    try:
        raw = b64decode(re.sub(r"[\r\n]", "", event.value), validate=True)
    except ValueError:
        raise _fault(
            event, "a !!binary that isn't base64", "base64", "Write the text itself."
        ) from None
    return raw.decode(errors="replace")


def _key(event: Any, value: object, into: dict[str, object], merged: set[str]) -> object:
    """Return a mapping key as a string, as in JSON; `<<` gives the mark of a YAML merge.

    Raises:
        InputError: The key is a collection or null, or the mapping already has the key.
    """
    if isinstance(value, str):
        if value == "<<" and type(event) is yaml.ScalarEvent and event.implicit[0]:
            return _MERGE
    elif isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, float):
        value = f"{value:g}"
    elif isinstance(value, int):
        value = str(value)
    else:
        raise _fault(event, "a key that isn't text", "text", "Quote the key.")
    if value in into and value not in merged:
        raise _fault(
            event,
            f"the key {show(value)} twice in one mapping",
            "each key once",
            "Remove one of the two. kubectl uses the last one without a warning.",
        )
    return value


def _mergeable(event: Any, value: object) -> list[dict[str, object]]:
    """Return the mappings of a YAML merge (<<), in the order in which to apply them.

    A list of mappings is reversed: go.yaml.in/yaml/v2 gives the first mapping priority over the
    other mappings, and over keys that are written before the merge.
    """
    values = value if isinstance(value, list) else [value]
    mappings = [item for item in values if isinstance(item, dict)]
    if len(mappings) != len(values):
        raise _fault(
            event, "a merge key (<<) whose value isn't a mapping", "a mapping", "Write it out."
        )
    return mappings[::-1]


def _fault(event: Any, found: str, wanted: str, cure: str) -> InputError:
    return InputError(found, wanted, cure, event.start_mark.line + 1)
