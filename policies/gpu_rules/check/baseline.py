"""Baseline: known violations from the report of an earlier run, which no longer fail a run."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..faults import Fault
from .context import ContextError
from .files import STDIN_NAME
from .report import Result
from .result import Found, Judged

_TEXTS: Final = ("rule", "file", "subject", "container", "path", "exemption")
_SCHEMA: Final = {
    "type": "object",
    "required": ["version", "violations"],
    "properties": {
        "version": {"const": 1},
        "violations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": list(_TEXTS),
                "properties": {name: {"type": "string"} for name in _TEXTS},
            },
        },
    },
}
# Maximum size of a report, in bytes.
_LIMIT: Final = 64 * 1024 * 1024
_Key = tuple[str, str, str, str, str]


class Baseline:
    """The known violations from an earlier report; each entry excuses one violation.

    A violation matches an entry with the same rule, file, object, container and path. Line numbers
    and list indices in paths are ignored, so the entry still matches after a line, a container or
    a list item is inserted before the violation.
    """

    def __init__(self, known: Iterable[_Key] = ()) -> None:
        """Count how many violations each key in the earlier report excuses."""
        self._known = Counter(known)

    @property
    def left(self) -> int:
        """Return the number of baseline entries that no violation of this run has matched."""
        return self._known.total()

    def marked(self, results: Iterable[Result]) -> Iterator[Result]:
        """Yield the results with `known=True` in each violation that the baseline excuses."""
        for result in results:
            match result:
                case Found():
                    yield self._marked(result)
                case Judged():
                    yield replace(result, found=tuple(map(self._marked, result.found)))
                case _:
                    yield result

    def _marked(self, found: Found) -> Found:
        key = _key(found.rule, found.file, found.subject, found.container, found.path)
        if found.exemption or not self._known[key]:
            return found
        self._known[key] -= 1
        return replace(found, known=True)


def read(path: Path) -> Baseline:
    """Return the baseline from a report in the format `json`, without exempted violations.

    Raises:
        ContextError: The file cannot be read or is not a report in the format `json`.
    """
    # jsonschema is imported only for runs with a baseline.
    from jsonschema import Draft7Validator

    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT + 1)
        if len(text) > _LIMIT:
            raise _refused(path, f"more than {_LIMIT} bytes")
        report: Any = json.loads(text)
    except OSError as error:
        raise _refused(path, (error.strerror or str(error)).lower()) from None
    except (ValueError, RecursionError):
        raise _refused(path, "no JSON") from None
    wrong = next(Draft7Validator(_SCHEMA).iter_errors(report), None)
    if wrong:
        raise _refused(path, f"a wrong value at {wrong.json_path}")
    entries = ([entry[name] for name in _TEXTS] for entry in report["violations"])
    return Baseline(_key(*entry[:5]) for entry in entries if not entry[5])


def _key(rule: str, file: str, subject: str, container: str, path: str) -> _Key:
    name = file if file == STDIN_NAME else os.path.relpath(file)
    return rule, name, subject, container, re.sub(r"\[\d+\]", "[]", path)


def _refused(path: Path, found: str) -> ContextError:
    wanted = "a report of an earlier run"
    cure = f"write one with `gpu-rules check PATH --output json={path}`"
    return ContextError(Fault(f"--baseline {path}", found, wanted, cure))
