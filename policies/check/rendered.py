"""The documents of a run: what charts and kustomizations render, and the files that stand alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from ..faults import InputError
from ..rules.unknown import at, mapping, text
from . import chart, kustomization
from .document import Source
from .files import STDIN, Name, read
from .kustomization import Kustomization
from .parse import documents
from .problem import Problem, Unjudged
from .stream import StreamPart, decode, split
from .template import PATCH, line_with_gpus
from .tool import NotRendered

Entry = Source | Problem | Unjudged


def sources(names: Iterable[Name], *, render: bool) -> Iterator[Entry]:
    """Yield the documents of a run, and what was left out.

    A file that a chart or a kustomization renders is judged in what they render, and not again on
    its own.

    Args:
        names: The files that the arguments name.
        render: Whether to render charts and kustomizations; if not, they are only named.
    """
    listed = list(names)
    charts = dict.fromkeys(filter(None, map(_chart, listed)))
    for folder in charts:
        yield from _of_chart(folder, render)
    built: set[str] = set()
    patches: set[str] = set()
    waiting = _roots(listed)
    seen = {one.folder for one in waiting}
    while waiting:
        one = waiting.pop(0)
        try:
            yield from _built(one, render)
        except NotRendered as error:
            name = kustomization.file_of(one.folder) or one.folder
            yield Unjudged(_shown(name), kustomization.KIND, reason=f"not rendered: {error}")
            patches |= one.patches
            below = [kustomization.read(folder) for folder in one.below]
            waiting += [inner for inner in below if inner and inner.folder not in seen]
            seen |= {inner.folder for inner in below if inner}
        else:
            for inner in kustomization.with_all_below(one):
                built |= inner.resources | inner.patches | inner.settings
    for file in listed:
        real = file.path if file.path == STDIN else os.path.realpath(file.path)
        if real in built or _chart(file) or os.path.basename(real) in kustomization.NAMES:
            continue
        yield from _patch(file) if real in patches else read(file)


def _chart(name: Name) -> str | None:
    return None if name.path == STDIN else chart.chart_of(name.path)


def _roots(names: Iterable[Name]) -> list[Kustomization]:
    """Return the kustomizations of a run that no other kustomization of the run builds on."""
    folders = dict.fromkeys(filter(None, map(_kustomized, names)))
    found = [one for one in map(kustomization.read, folders) if one and not one.is_component]
    below = {
        inner.folder
        for one in found
        for inner in kustomization.with_all_below(one)
        if inner is not one
    }
    return [one for one in found if one.folder not in below]


def _kustomized(name: Name) -> str | None:
    """Return the folder whose kustomization a file is, or patches with the file; or None."""
    if name.path == STDIN or _chart(name):
        return None
    real = os.path.realpath(name.path)
    folder, base = os.path.split(real)
    if base in kustomization.NAMES:
        return folder
    return next((above for above in _above(folder) if real in _patches(above)), None)


@cache
def _above(folder: str) -> tuple[str, ...]:
    """Return the folders with a kustomization at a folder or above it, the nearest first."""
    above = os.path.dirname(folder)
    rest = _above(above) if above != folder else ()
    return (folder, *rest) if kustomization.file_of(folder) else rest


def _patches(folder: str) -> frozenset[str]:
    one = kustomization.read(folder)
    return one.patches if one else frozenset()


def _of_chart(folder: str, render: bool) -> Iterator[Entry]:
    name = f"chart {_shown(folder)}"
    try:
        if not render:
            raise NotRendered("--no-render was given")
        rendered = chart.render(folder)
    except NotRendered as error:
        yield Unjudged(_shown(folder), chart.KIND, reason=f"not rendered: {error}")
        return
    for number, (file, manifest) in enumerate(rendered.objects, 1):
        yield Source(_shown(file), _part(number, manifest), rendered=name)
    for missing in rendered.left_out:
        reason = f"{missing} is not in the folder charts; run helm dependency build"
        yield Unjudged(_shown(folder), "chart that a chart needs", reason=reason)


def _built(one: Kustomization, render: bool) -> Iterator[Source]:
    if not render:
        raise NotRendered("--no-render was given")
    name = f"kustomization {_shown(one.folder)}"
    for number, (file, manifest) in enumerate(kustomization.build(one), 1):
        origin = _origin(file, text(manifest.get("kind")), text(at(manifest, "metadata", "name")))
        yield Source(_shown(file), _part(number, manifest), rendered=name, origin=origin)


def _part(number: int, manifest: Mapping[str, object]) -> StreamPart:
    return StreamPart(number, 1, json.dumps(manifest))


def _origin(file: str, kind: str, name: str) -> StreamPart | None:
    """Return the document of a file that a built object stems from.

    A kustomization may have added a prefix and a suffix to the name.
    """
    same = [entry for entry in _objects(file) if entry[0] == kind]
    named = [entry for entry in same if entry[1] and entry[1] in name]
    best = max(named, key=lambda entry: len(entry[1]), default=next(iter(same), None))
    return best[2] if best else None


@cache
def _objects(file: str) -> tuple[tuple[str, str, StreamPart], ...]:
    """Return kind, name and text of each object in a file."""
    found = []
    try:
        for part in split(decode(Path(file).read_bytes())):
            for value in documents(part.text):
                fields = mapping(value)
                name = text(at(fields, "metadata", "name"))
                found.append((text(fields.get("kind")), name, part))
    except (OSError, InputError):
        return ()
    return tuple(found)


def _patch(name: Name) -> Iterator[Entry]:
    """Yield the patch of a kustomization that was not built, if the patch names GPUs."""
    for entry in read(name):
        if not isinstance(entry, Source):
            yield entry
        elif (line := line_with_gpus(entry.part.text)) is not None:
            reason = "it names GPUs, and its kustomization was not rendered"
            line += entry.part.line - 1
            yield Unjudged(entry.file, PATCH, line=line, reason=reason)


def _shown(path: str) -> str:
    """Return a path as seen from the current folder, if it lies below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
