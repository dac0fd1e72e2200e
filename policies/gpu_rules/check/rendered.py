"""Collect the documents to check: rendered charts and kustomizations, and all other files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..faults import InputError
from ..rules.unknown import at, mapping, sequence, text
from . import chart, kustomization
from .document import Source
from .files import STDIN, Name, read
from .kustomization import Kustomization
from .parse import SIZE_LIMIT, documents
from .problem import Problem, Unjudged
from .progress import Progress
from .stream import StreamPart, decode, split
from .template import PATCH, line_with_gpus
from .tool import NotRendered

Entry = Source | Problem | Unjudged
_CHARTS = "helmCharts"
_LONGEST_NAME = 253
"""Length in characters of the name of a Kubernetes object."""
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
    seen_folders = {kustomized.folder for kustomized in waiting}
    while waiting:
        failed: list[Kustomization] = []
        for kustomized, result in _build_all(waiting, render):
            if isinstance(result, str):
                name = kustomization.file_of(kustomized.folder) or kustomized.folder
                yield Unjudged(_shown(name), kustomization.KIND, reason=f"not rendered: {result}")
                patches |= kustomized.patches
                failed.append(kustomized)
                continue
            yield from result
            for inner in kustomization.with_all_below(kustomized):
                built |= inner.resources | inner.patches | inner.settings
        # If a kustomization can't be built, build each kustomization that it includes separately.
        below = [kustomization.read(folder) for kustomized in failed for folder in kustomized.below]
        unseen = {
            inner.folder: inner for inner in below if inner and inner.folder not in seen_folders
        }
        waiting = list(unseen.values())
        seen_folders |= unseen.keys()
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
    roots = [
        kustomized
        for kustomized in map(kustomization.read, folders)
        if kustomized and not kustomized.is_component
    ]
    below = {
        inner.folder
        for kustomized in roots
        for inner in kustomization.with_all_below(kustomized)
        if inner is not kustomized
    }
    return [kustomized for kustomized in roots if kustomized.folder not in below]


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
    above_it = _above(above) if above != folder else ()
    return (folder, *above_it) if kustomization.file_of(folder) else above_it


def _patches(folder: str) -> frozenset[str]:
    kustomized = kustomization.read(folder)
    return kustomized.patches if kustomized else frozenset()


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


def _build_all(
    kustomizations: Sequence[Kustomization], render: bool
) -> Iterator[tuple[Kustomization, list[Source] | str]]:
    """Build kustomizations on all processor cores, and yield the documents or the fault of each."""
    if not render:
        yield from ((kustomized, "--no-render was given") for kustomized in kustomizations)
        return
    workers = min(len(os.sched_getaffinity(0)), len(kustomizations))
    with ExitStack() as stack:
        results: Iterable[list[Source] | str] = map(_build, kustomizations)
        if workers > 1:
            results = stack.enter_context(ProcessPoolExecutor(workers)).map(_build, kustomizations)
        progress = Progress(len(kustomizations), "kustomizations built")
        for kustomized, result in zip(kustomizations, results, strict=True):
            progress.advance()
            yield kustomized, result


def _build(kustomized: Kustomization) -> list[Source] | str:
    """Return the documents of a kustomization, or the reason why it is not rendered."""
    try:
        return list(_built(kustomized))
    except NotRendered as error:
        return str(error)


def _built(kustomized: Kustomization) -> Iterator[Source]:
    name = f"kustomization {_shown(kustomized.folder)}"
    for number, (file, manifest) in enumerate(kustomization.build(kustomized), 1):
        origin = _origin(file, text(manifest.get("kind")), text(at(manifest, "metadata", "name")))
        yield Source(_shown(file), _part(number, manifest), rendered=name, origin=origin)


def _releases(name: Name) -> Iterator[Source]:
    """Yield a kustomization that has charts, which is then checked as a release of each chart.

    No kustomization is built with its charts, because that would fetch them. A kustomization may
    leave out apiVersion and kind (kubernetes-sigs/kustomize api/types, FixKustomization).
    """
    for entry in read(name):
        if isinstance(entry, Source) and _CHARTS in entry.part.text:
            with suppress(InputError):
                for value in map(mapping, documents(entry.part.text)):
                    manifest = {**_KUSTOMIZATION, **value}
                    if charts := sequence(manifest.get(_CHARTS)):
                        folder = os.path.dirname(name.real)
                        manifest[_CHARTS] = [
                            _with_files(mapping(chart), folder) for chart in charts
                        ]
                        yield replace(
                            entry,
                            part=_part(entry.part.number, manifest),
                            rendered=f"kustomization {_shown(os.path.dirname(name.real))}",
                            origin=entry.part,
                        )


def _with_files(chart: Mapping[str, object], folder: str) -> dict[str, object]:
    """Return a chart of a kustomization, with the values of its files in `valuesInline`.

    Inline values take precedence over those of `valuesFile`, unless `valuesMerge` says otherwise,
    and `additionalValuesFiles` over both (sigs.k8s.io/kustomize/api v0.21.1
    internal/builtins/HelmChartInflationGenerator.go). As kustomize does, only files below the
    kustomization are read.
    """
    inline = mapping(chart.get("valuesInline"))
    layers = [_values_in(folder, text(chart.get("valuesFile"))), inline]
    match chart.get("valuesMerge"):
        case "merge":
            layers.reverse()
        case "replace" if inline:
            layers = [inline]
    additional = map(text, sequence(chart.get("additionalValuesFiles")))
    layers += [_values_in(folder, file) for file in additional]
    merged: dict[str, object] = {}
    for layer in layers:
        merged = _merged(merged, layer)
    return {**chart, "valuesInline": merged} if merged else dict(chart)


def _values_in(folder: str, file: str) -> Mapping[str, object]:
    """Return the values in a file below a folder; empty if there is none or it can't be read."""
    path = os.path.realpath(os.path.join(folder, file))
    if not file or not path.startswith(os.path.realpath(folder) + os.sep):
        return {}
    try:
        with open(path, "rb") as opened:
            values = documents(decode(opened.read(SIZE_LIMIT + 1)))
    except (OSError, InputError):
        return {}
    return mapping(values[0]) if values else {}


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return two levels of Helm values as one: the second takes precedence, key by key."""
    both: dict[str, object] = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = _merged(mapping(below[key]), mapping(above[key]))
    return both


def _part(number: int, manifest: Mapping[str, object]) -> StreamPart:
    return StreamPart(number, 1, json.dumps(manifest))


def _origin(file: str, kind: str, name: str) -> StreamPart | None:
    """Return the document in a file from which kustomize built an object, or None.

    The document has the kind of the object. If possible, its name is part of the object's name,
    because a kustomization may add a prefix and a suffix to names.
    """
    by_name = _objects(file).get(kind, {})
    name = name[:_LONGEST_NAME]
    for length in _lengths(file, kind):
        for start in range(len(name) - length + 1):
            if part := by_name.get(name[start : start + length]):
                return part
    return next(iter(by_name.values()), None)


@cache
def _lengths(file: str, kind: str) -> Sequence[int]:
    """Return the lengths of the names of the objects of a kind in a file, the longest first."""
    return sorted({len(name) for name in _objects(file).get(kind, {}) if name}, reverse=True)


@cache
def _objects(file: str) -> Mapping[str, Mapping[str, StreamPart]]:
    """Return the first document of each kind and name in a file; empty for an unreadable file."""
    objects: dict[str, dict[str, StreamPart]] = {}
    try:
        for stream_part in split(decode(Path(file).read_bytes())):
            for value in documents(stream_part.text):
                fields = mapping(value)
                name = text(at(fields, "metadata", "name"))
                objects.setdefault(text(fields.get("kind")), {}).setdefault(name, stream_part)
    except (OSError, InputError):
        return {}
    return objects


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
