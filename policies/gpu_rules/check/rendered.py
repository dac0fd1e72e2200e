"""Collect the documents to check: rendered charts and kustomizations, and all other files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
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
_CHARTS = "helmCharts"
_KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def sources(names: Iterable[Name], *, render: bool) -> Iterator[Entry]:
    """Yield the documents to check, and the input that could not be read or rendered.

    Charts and kustomizations among the files are rendered, and their objects are yielded. The files
    that belong to a rendered chart or kustomization are not yielded a second time.

    Args:
        names: The files that the command line names.
        render: Whether to render charts and kustomizations. If False, they are reported as not
            judged.
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
        if os.path.basename(file.real) in kustomization.NAMES:
            yield from _releases(file)
            continue
        if file.real in built or _chart(file):
            continue
        yield from _patch(file) if file.real in patches else read(file)


def _chart(name: Name) -> str | None:
    return None if name.path == STDIN else chart.chart_of(name.real)


def _roots(names: Iterable[Name]) -> list[Kustomization]:
    """Return the kustomizations among files, without those that another of them includes."""
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
    """Return the folder of the kustomization that a file defines or is a patch of, or None."""
    if name.path == STDIN or _chart(name):
        return None
    folder, base = os.path.split(name.real)
    if base in kustomization.NAMES:
        return folder
    return next((above for above in _above(folder) if name.real in _patches(above)), None)


@cache
def _above(folder: str) -> tuple[str, ...]:
    """Return the folders with a kustomization: a folder and its parents, the nearest first."""
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


def _releases(name: Name) -> Iterator[Source]:
    """Yield a kustomization that has charts, which is then judged as a release of each of them.

    No kustomization is built with its charts, because that would fetch them. A kustomization may
    leave out apiVersion and kind (kubernetes-sigs/kustomize api/types, FixKustomization).
    """
    for entry in read(name):
        if isinstance(entry, Source) and _CHARTS in entry.part.text:
            with suppress(InputError):
                for value in map(mapping, documents(entry.part.text)):
                    manifest = {**_KUSTOMIZATION, **value}
                    if mapping(manifest).get(_CHARTS):
                        yield replace(
                            entry,
                            part=_part(entry.part.number, manifest),
                            rendered=f"kustomization {_shown(os.path.dirname(name.real))}",
                            origin=entry.part,
                        )


def _part(number: int, manifest: Mapping[str, object]) -> StreamPart:
    return StreamPart(number, 1, json.dumps(manifest))


def _origin(file: str, kind: str, name: str) -> StreamPart | None:
    """Return the document in a file from which kustomize built an object, or None.

    The document has the kind of the object. If possible, its name is part of the object's name,
    because a kustomization may add a prefix and a suffix to names.
    """
    same = [entry for entry in _objects(file) if entry[0] == kind]
    named = [entry for entry in same if entry[1] and entry[1] in name]
    best = max(named, key=lambda entry: len(entry[1]), default=next(iter(same), None))
    return best[2] if best else None


@cache
def _objects(file: str) -> tuple[tuple[str, str, StreamPart], ...]:
    """Return kind, name and document of each object in a file; empty for an unreadable file."""
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
    """Yield patches that name GPUs, from a patch file of a kustomization that was not built."""
    for entry in read(name):
        if not isinstance(entry, Source):
            yield entry
        elif (line := line_with_gpus(entry.part.text)) is not None:
            reason = "it names GPUs, and its kustomization was not rendered"
            line += entry.part.line - 1
            yield Unjudged(entry.file, PATCH, line=line, reason=reason)


def _shown(path: str) -> str:
    """Return a path below the current folder as a relative path, and any other path unchanged."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
