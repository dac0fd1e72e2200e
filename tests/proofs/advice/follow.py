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
PUBLIC_KEY_FILE = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT root@host\n"
)
"""Content of /etc/ssh/ssh_host_ed25519_key.pub of a host, as ssh-keygen writes it."""
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
        left = [one for one in after if is_same(one, fault)]
        new = [one for one in after if not any(is_same(one, old) for old in before)]
        if not left and new and fault.cure.startswith(ONE_LEVEL_UP):
            new = _follow_all(edited, after)
        if not left and not new:
            return ""
        reasons.append(f"alternative {number}: {'; '.join(map(str, [*left, *new]))}")
    return "\n".join(reasons) or "no form of a cure"


def is_same(one: Fault, other: Fault) -> bool:
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
        for choice in _choices(alternative.strip()):
            edited = copy.deepcopy(document)
            if _performed(edited, fault.location, choice, fault.found.strip(chr(34))):
                yield edited


def _choices(cure: str) -> list[str]:
    """Return the instructions of a text that leaves the value open."""
    if re.match(r"write true or false\b", cure):
        return ["write true", "write false"]
    return [cure]


def _performed(document: Any, at: Location, cure: str, found: Any) -> bool:
    """Perform one instruction; return False if its form is unknown, as with words for a value."""
    try:
        return _edit(document, at, cure, found)
    except yaml.YAMLError:
        return False


def _edit(document: Any, at: Location, cure: str, found: Any) -> bool:
    """Perform one instruction on a document; return False if its form is unknown."""
    if not isinstance(document, dict):
        return False
    if re.match(r"remove it\b", cure):
        return _remove(document, at)
    if re.match(r"take it from /etc/ssh/ssh_host_ed25519_key\.pub on the \w+$", cure):
        return _put(document, at, PUBLIC_KEY_FILE)
    if cure == "remove the second one":
        return _remove_second(document, at)
    if match := re.fullmatch(rf"remove ({PATH})(?: and ({PATH}))?(?: from \w+)?", cure):
        return all(
            [_remove(document, _resolve(document, at, path)) for path in match.groups() if path]
        )
    if match := re.fullmatch(r'rename it to "(.+)"(?:, for example)?', cure):
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
    if re.fullmatch(r'add "\w+:.*"', cure):
        texts = cure.removeprefix('add "').removesuffix('"').split('" and "')
        return all([_merge(document, at[:-1], t) or _merge(document, at, t) for t in texts])
    if match := re.fullmatch(rf"write ({PATH}): (.+) and remove it here", cure):
        _pop(document, at)
        return _put(document, _absolute(at, match[1]), yaml.safe_load(match[2]))
    if match := re.fullmatch(
        rf'write ("\w+: [^"]+"(?: and "\w+: [^"]+")*)(?: (?:below|under|in)(?: the)? ({PATH}))?.*',
        cure,
    ):
        texts = re.findall(r'"([^"]+)"', match[1])
        return all([_write_below(document, at, text, match[2]) for text in texts])
    if match := re.fullmatch(r"(?:write|choose) .*\bsuch as (\S+?),?", cure):
        return _put(document, at, yaml.safe_load(match[1]))
    if match := re.fullmatch(r"(?:put it in quotes: )(\".*\")", cure):
        return _put(document, at, yaml.safe_load(match[1]))
    if match := re.fullmatch(r"(?:write )?([A-Za-z][\w.]+): (\w+)(?: in dra\.extraValues)?", cure):
        inside = "extraValues" in at and at[-2] == "featureGates"
        place = (*at[:-1], match[1]) if inside else (at[0], "extraValues", *match[1].split("."))
        if "extraValues" in at or cure.endswith("extraValues"):
            place = place if at[0] != "driver" else ("dra", "extraValues", *match[1].split("."))
            return _put(document, place, yaml.safe_load(match[2]))
        return False
    if match := re.fullmatch(r"rename (\w+) to (\w+)", cure):
        old = _resolve(document, at, match[1])
        return _put(document, (*old[:-1], match[2]), _pop(document, old))
    if match := re.fullmatch(r"keep (.+) alone", cure):
        kept = _parent(document, (*at, 0), create=False)
        return isinstance(kept, dict) and _put(document, at, {match[1]: kept[match[1]]})
    if match := re.fullmatch(r"write (.+?)(?: without quotes)?(?:, for example)?", cure):
        return _put(document, at, yaml.safe_load(match[1]), found)
    return False


def _write_below(document: Any, at: Location, text: str, section: str | None) -> bool:
    """Write a key where the text says, or into the nearest section that has the key."""
    if section:
        place = _resolve(document, at, section)
        is_known = place[0] in fields(ClusterSettings)
        return is_known and _merge(document, place, text)
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
        parent = _parent(document, (*at[:length], steps[0]), create=False)
        if isinstance(parent, dict) and steps[0] in parent:
            return (*at[:length], *steps)
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


def _put(document: Any, at: Location, value: Any, found: Any = None) -> bool:
    parent = _parent(document, at, create=True) if at else None
    if isinstance(parent, str):  # One item, which stands for a list, or a part of a text.
        if at[-1] == 0:
            return _put(document, at[:-1], value)
        return _put(document, at[:-1], parent.replace(str(found), str(value)))
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


def _remove_second(document: Any, at: Location) -> bool:
    """Remove the second of two equal items of a list, or of two with the same key."""
    items = _parent(document, (*at, 0), create=False)
    for number, item in enumerate(items if isinstance(items, list) else []):
        if item in items[:number] or _key_of(item) in map(_key_of, items[:number]):
            del items[number]
            return True
    return False


def _key_of(item: Any) -> Any:
    if isinstance(item, str) and ":" in item:
        return re.split("[=:]", item)[0], item.rpartition(":")[2]
    if isinstance(item, dict):
        return item.get("name") or (item.get("key"), item.get("effect"))
    return item


def _remove(document: Any, at: Location) -> bool:
    parent = _parent(document, at, create=False) if at else None
    if (isinstance(parent, dict) and at[-1] in parent) or (
        isinstance(parent, list) and isinstance(at[-1], int) and at[-1] < len(parent)
    ):
        del parent[at[-1]]
        return True
    return False
