"""Read kustomizations, and build them with `kustomize build` or `kubectl kustomize`."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ..faults import InputError
from ..printable import printable
from ..rules.unknown import mapping, sequence, text
from .parse import SIZE_LIMIT, documents
from .stream import decode
from .tool import NotRendered, output_of

NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
KIND: Final = "kustomization"
_RESOURCES: Final = ("resources", "bases", "components", "crds")
_PATCHES: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")
_CONFIGURATIONS: Final = ("configurations", "transformers", "generators", "validators")
_TEXTS: Final = frozenset(
    {
        *("annotations", "apiVersion", "buildMetadata", "commonAnnotations", "commonLabels"),
        *("images", "kind", "labels", "literals", "metadata", "namePrefix", "nameSuffix"),
        *("namespace", "options", "replicas", "sortOptions", "target", "vars"),
    }
)
"""Fields whose texts kustomize never reads as the name of a file."""
_REMOTE: Final = re.compile(
    r"(?:^|=)\s*((?:https?:|git::|ssh:|file:|git@|github\.com[/:])\S*)", re.IGNORECASE
)
"""A name that kustomize downloads or clones (sigs.k8s.io/kustomize/api v0.21.1
internal/loader/fileloader.go, Load; loader, IsRemoteFile; internal/git/repospec.go, extractScheme
and extractHost). No proxy keeps a Go program from an address on this machine.
"""
_URL: Final = re.compile(r"(https?:\S*)", re.IGNORECASE)
_ORIGIN: Final = "config.kubernetes.io/origin"


@dataclass(frozen=True)
class Kustomization:
    """The files and folders that a kustomization reads, all as real paths.

    Attributes:
        folder: Folder of the kustomization.
        is_component: Whether the kustomization has the kind Component, which cannot be built alone.
        below: Folders of the kustomizations that this kustomization includes.
        resources: Files with whole objects.
        patches: Files with patches of objects.
        settings: Files with configurations, transformers, generators and validators.
        remote: Names that kustomize would download.
        others: Folders that the kustomization names in any field.
    """

    folder: str
    is_component: bool
    below: tuple[str, ...]
    resources: frozenset[str]
    patches: frozenset[str]
    settings: frozenset[str]
    remote: tuple[str, ...]
    others: tuple[str, ...]


def file_of(folder: str) -> str | None:
    """Return the path of the kustomization file in a folder, or None."""
    names = (os.path.join(folder, name) for name in NAMES)
    return next((name for name in names if os.path.isfile(name)), None)


@cache
def read(folder: str) -> Kustomization | None:
    """Return the kustomization in a folder, or None if the folder has no readable one."""
    name = file_of(folder)
    if name is None:
        return None
    try:
        (value,) = documents(decode(Path(name).read_bytes()[: SIZE_LIMIT + 1]))
    except (OSError, InputError, ValueError):
        return None
    fields = mapping(value)
    folder = os.path.realpath(folder)
    paths = [_real(folder, entry) for key in _RESOURCES for entry in _entries(fields, key)]
    patches = {
        _real(folder, text(entry) or text(mapping(entry).get("path")))
        for key in _PATCHES
        for entry in sequence(fields.get(key))
    }
    settings = {_real(folder, entry) for key in _CONFIGURATIONS for entry in _entries(fields, key)}
    return Kustomization(
        folder=folder,
        is_component=fields.get("kind") == "Component",
        below=tuple(path for path in paths if os.path.isdir(path)),
        resources=frozenset(filter(os.path.isfile, paths)),
        patches=frozenset(filter(os.path.isfile, patches)),
        settings=frozenset(filter(os.path.isfile, settings)),
        remote=tuple(_remote(fields)),
        others=tuple(filter(os.path.isdir, {_real(folder, name) for name in _names(fields)})),
    )


def _names(value: object) -> Iterator[str]:
    """Yield the texts of a kustomization that may name a file or a folder."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict):
            waiting += [value_below for key, value_below in current.items() if key not in _TEXTS]
        elif isinstance(current, list):
            waiting += current


def _remote(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the names in a kustomization that kustomize would download.

    A text of several lines is a patch, or the settings of a plugin, which may name a file, too.
    """
    for name in _names({key: value for key, value in fields.items() if key not in _PATCHES}):
        if match := _REMOTE.search(name) or _URL.search(name if "\n" in name else ""):
            yield match[1]
    for key in _PATCHES:
        for name in _names(fields.get(key)):
            if "\n" not in name and (match := _REMOTE.search(name)):
                yield match[1]


def _download(kustomization: Kustomization) -> str:
    """Return what kustomize would download, or why that is not known; empty if nothing."""
    waiting, seen_folders = [kustomization.folder], {kustomization.folder}
    while waiting:
        current = read(waiting.pop())
        if current is None:
            return "a kustomization that cannot be read"
        if current.remote:
            return current.remote[0]
        for name in current.settings:
            with open(name, "rb") as file:
                if match := _URL.search(file.read(SIZE_LIMIT).decode(errors="replace")):
                    return match[1]
        for folder in current.others:
            if folder not in seen_folders and file_of(folder):
                seen_folders.add(folder)
                waiting.append(folder)
    return ""


def with_all_below(kustomization: Kustomization) -> Iterator[Kustomization]:
    """Yield a kustomization and all kustomizations that it includes, also indirectly, each once."""
    waiting, seen_folders = [kustomization], {kustomization.folder}
    while waiting:
        current = waiting.pop()
        yield current
        for folder in current.below:
            if folder not in seen_folders and (inner := read(folder)):
                seen_folders.add(folder)
                waiting.append(inner)


def build(kustomization: Kustomization) -> list[tuple[str, Mapping[str, object]]]:
    """Build a kustomization, and return its objects, each with the name of its source file.

    kustomize builds a temporary kustomization that includes the given one and sets
    `buildMetadata: [originAnnotations]`. kustomize then writes the source file of each object into
    an annotation (sigs.k8s.io/kustomize api/types/kustomization.go, BuildMetadata).

    Raises:
        NotRendered: Neither kustomize nor kubectl is on PATH, the kustomization has remote parts,
            or the build fails.
    """
    if address := _download(kustomization):
        raise NotRendered(f"it has remote parts, which are not downloaded: {printable(address)}")
    command = _command()
    with tempfile.TemporaryDirectory(prefix="gpu-rules-build-") as around:
        around = os.path.realpath(around)
        wrapper = {
            "resources": [os.path.relpath(kustomization.folder, around)],
            "buildMetadata": ["originAnnotations"],
        }
        Path(around, NAMES[0]).write_text(json.dumps(wrapper))
        try:
            values = documents(output_of([*command, around]))
        except InputError as error:
            raise NotRendered(f"its output cannot be read: {error.found}") from None
        return [_built(mapping(value), around, kustomization.folder) for value in values]


def _command() -> tuple[str, ...]:
    if path := shutil.which("kustomize"):
        return os.path.abspath(path), "build"
    if path := shutil.which("kubectl"):
        return os.path.abspath(path), "kustomize"
    raise NotRendered("neither kustomize nor kubectl is on PATH")


def _built(
    manifest: Mapping[str, object], around: str, folder: str
) -> tuple[str, Mapping[str, object]]:
    """Return the source file of a built object, and the object without its origin annotation.

    Args:
        manifest: An object in the output of kustomize.
        around: Folder of the temporary kustomization, to which source paths are relative.
        folder: Folder of the kustomization.
    """
    metadata = mapping(manifest.get("metadata"))
    annotations = dict(mapping(metadata.get("annotations")))
    origin = mapping(next(iter(_documents(text(annotations.pop(_ORIGIN, "")))), None))
    name = "" if origin.get("repo") else text(origin.get("path"))
    kept_metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    if annotations:
        kept_metadata["annotations"] = annotations
    # The origin annotation of a generated object has no path.
    path = os.path.normpath(os.path.join(around, name)) if name else file_of(folder) or folder
    return path, {**manifest, "metadata": kept_metadata}


def _documents(written: str) -> list[object]:
    try:
        return documents(written)
    except InputError:
        return []


def _entries(fields: Mapping[str, object], key: str) -> Iterable[str]:
    return filter(None, map(text, sequence(fields.get(key))))


def _real(folder: str, entry: str) -> str:
    """Return the real path of a kustomization's entry; empty for a URL or an inline patch."""
    if not entry or "\n" in entry or "\0" in entry or "://" in entry:
        return ""
    return os.path.realpath(os.path.join(folder, entry))
