"""Follow the cure of a stack file's fault: do exactly what its text says, and load again.

The forms of the texts are those of `gpu_cluster.base.document_cures`. A text in another form has no
edit here, and counts as a cure that nobody followed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import yaml

from gpu_cluster.base.document_cures import ONE_LEVEL_UP
from gpu_cluster.base.keys import fields, model_at
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.faults import ConfigError, Fault, Location

Json = dict[str, Any]
PATH = r"[A-Za-z][\w.<>-]*(?:\[\d*\][\w.]*)*"
STEPS = 4
"""Number of cures followed one after the other, where one reveals what it had hidden."""


def faults_of(document: Any) -> tuple[Fault, ...]:
    """Return the faults of a document; none if it loads."""
    try:
        load(document)
    except ConfigError as error:
        return error.faults
    return ()


def follow(document: Any, fault: Fault, before: tuple[Fault, ...]) -> str:
    """Return why a cure doesn't work; empty if one of its alternatives does.

    Args:
        document: The document with the fault.
        fault: The fault whose cure is followed.
        before: All faults of the document.
    """
    reasons = []
    for number, edited in enumerate(edits(document, fault), start=1):
        after = faults_of(edited)
        left = [one for one in after if _same(one, fault)]
        new = [one for one in after if not any(_same(one, old) for old in before)]
        if not left and new and fault.cure.startswith(ONE_LEVEL_UP):
            new = _follow_all(edited, after)
        if not left and not new:
            return ""
        reasons.append(f"alternative {number}: {'; '.join(map(str, [*left, *new]))}")
    return "\n".join(reasons) or "no form of a cure"


def _same(one: Fault, other: Fault) -> bool:
    return (one.found, one.wanted) == (other.found, other.wanted) and (
        one.location == other.location or one.place == other.place
    )


def _follow_all(document: Any, faults: tuple[Fault, ...]) -> list[Fault]:
    """Follow the cures of faults one after the other; return the faults that stay."""
    for _ in range(STEPS * 10):
        if not faults:
            return []
        for edited in edits(document, faults[0]):
            after = faults_of(edited)
            if len(after) < len(faults):
                document, faults = edited, after
                break
        else:
            return list(faults)
    return list(faults)


def edits(document: Any, fault: Fault) -> Iterator[Any]:
    """Yield the document after each alternative of a cure."""
    first = re.split(r"; |: (?=without |off |null |an empty )", fault.cure)[0]
    for alternative in re.split(r", or (?:also )?| or (?=move |write |remove |add )", first):
        edited = copy.deepcopy(document)
        if _edit(edited, fault.location, alternative.strip()):
            yield edited


def _edit(document: Any, at: Location, cure: str) -> bool:
    """Perform one instruction on a document; return False if its form is unknown."""
    if re.match(r"remove it\b", cure):
        return _remove(document, at)
    if match := re.fullmatch(rf"remove ({PATH})", cure):
        return _remove(document, _resolve(document, at, match[1]))
    if match := re.fullmatch(r'rename it to "(.+)"', cure):
        return _put(document, (*at[:-1], match[1]), _pop(document, at))
    if cure.startswith(ONE_LEVEL_UP):
        value = _pop(document, at)
        return isinstance(value, dict) and all(
            _put(document, (*at[:-1], key), below) for key, below in value.items()
        )
    if match := re.match(rf"move it to ({PATH}(?: or {PATH})*)", cure):
        return _put(document, _absolute(at, match[1].split(" or ")[0]), _pop(document, at))
    if match := re.fullmatch(
        rf'move its file "(.*)" to ({PATH})(?:, its other files to ({PATH}))?', cure
    ):
        files = _pop(document, at)
        _put(document, _absolute(at, match[2]), yaml.safe_load(files.pop(match[1])) or {})
        others = {name: yaml.safe_load(text) or {} for name, text in files.items()}
        return not others or _put(document, _absolute(at, match[3]), others)
    if match := re.fullmatch(r'add "(.+)"', cure):
        return _merge(document, at[:-1], match[1]) or _merge(document, at, match[1])
    if match := re.fullmatch(rf"write ({PATH}): (.+) and remove it here", cure):
        _pop(document, at)
        return _put(document, _absolute(at, match[1]), yaml.safe_load(match[2]))
    if match := re.fullmatch(rf'write "([\w.]+: .+)"(?: (?:below|under|in) ({PATH}))?', cure):
        return _write_below(document, at, match[1], match[2])
    if match := re.fullmatch(r"(?:put it in quotes: )(\".*\")", cure):
        return _put(document, at, yaml.safe_load(match[1]))
    if match := re.fullmatch(r"write (.+?)(?: without quotes)?(?:, for example)?", cure):
        return _put(document, at, yaml.safe_load(match[1]))
    return False


def _write_below(document: Any, at: Location, text: str, section: str | None) -> bool:
    """Write a key where the text says, or into the nearest section that has the key."""
    if section:
        return _merge(document, _resolve(document, at, section), text)
    key = text.partition(":")[0]
    for length in range(len(at), -1, -1):
        model = model_at(ClusterSettings, at[:length])
        if model is not None and key in fields(model):
            return _merge(document, at[:length], text)
    return False


def _absolute(at: Location, path: str) -> Location:
    """Return the location of a path of the stack file, or of `extraValues` of the same section."""
    steps: list[str | int] = []
    for step in path.split("."):
        name, bracket, index = step.partition("[")
        steps.append(name)
        if bracket:
            same = len(at) > 1 and at[0] == name and isinstance(at[1], int)
            steps.append(int(index[:-1]) if index[:-1] else at[1] if same else 0)
    return (at[0], *steps) if steps[0] == "extraValues" else tuple(steps)


def _resolve(document: Any, at: Location, path: str) -> Location:
    """Return the location that a path names: of the whole file, or below the fault's place."""
    steps = _absolute(at, path)
    for length in range(len(at), -1, -1):
        model = model_at(ClusterSettings, at[:length])
        if model is not None and steps[0] in fields(model):
            return (*at[:length], *steps)
    return steps


def _merge(document: Any, at: Location, text: str) -> bool:
    value = yaml.safe_load(text)
    return isinstance(value, dict) and all(
        _put(document, (*at, *key.split(".")), item) for key, item in value.items()
    )


def _parent(document: Any, at: Location, create: bool) -> Any:
    for step in at[:-1]:
        if isinstance(document, dict):
            if step not in document and create:
                document[step] = {}
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return None
    return document


def _put(document: Any, at: Location, value: Any) -> bool:
    parent = _parent(document, at, create=True) if at else None
    if isinstance(parent, dict) or (
        isinstance(parent, list) and isinstance(at[-1], int) and at[-1] < len(parent)
    ):
        parent[at[-1]] = value
        return True
    return False


def _pop(document: Any, at: Location) -> Any:
    parent = _parent(document, at, create=False) if at else None
    known = isinstance(parent, dict) and at[-1] in parent
    return parent.pop(at[-1]) if known or isinstance(parent, list) else None


def _remove(document: Any, at: Location) -> bool:
    parent = _parent(document, at, create=False) if at else None
    if (isinstance(parent, dict) and at[-1] in parent) or (
        isinstance(parent, list) and isinstance(at[-1], int) and at[-1] < len(parent)
    ):
        del parent[at[-1]]
        return True
    return False
