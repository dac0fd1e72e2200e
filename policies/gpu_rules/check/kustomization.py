"""Read kustomizations, and build them with `kustomize build` or `kubectl kustomize`."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
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
_RESOURCES: Final = frozenset({"resources", "bases", "components", "crds"})
_PATCHES: Final = frozenset({"patches", "patchesstrategicmerge", "patchesjson6902"})
_CONFIGURATIONS: Final = frozenset({"configurations", "transformers", "generators", "validators"})
"""Fields in lower case, because kustomize accepts them in any case."""
_TEXTS: Final = frozenset(
    {
        *("annotations", "apiVersion", "buildMetadata", "commonAnnotations", "commonLabels"),
        *("images", "kind", "labels", "literals", "metadata", "namePrefix", "nameSuffix"),
        *("namespace", "options", "replicas", "sortOptions", "target", "vars"),
    }
)
"""Fields whose texts kustomize never reads as the name of a file."""
_CHANGES: Final = _PATCHES | {
    *("components", "generators", "transformers", "replacements", "vars"),
    *("configmapgenerator", "secretgenerator"),
}
"""Fields by which a kustomization makes or changes texts of its objects, in lower case."""
_REMOTE: Final = re.compile(
    r"(?:^|=)\s*((?:https?:|git::|ssh:|file:|git@|github\.com[/:])\S*)", re.IGNORECASE
)
"""A name that kustomize downloads or clones (sigs.k8s.io/kustomize/api v0.21.1
internal/loader/fileloader.go, Load; loader, IsRemoteFile; internal/git/repospec.go, extractScheme
and extractHost). No proxy keeps a Go program from an address on this machine.
"""
_URL: Final = re.compile(r"(https?:\S*)", re.IGNORECASE)
_LONGEST_PATH: Final = 4096
"""Length in characters of a path that Linux opens (PATH_MAX)."""
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
        inline: Configurations, transformers, generators and validators in the kustomization itself.
        remote: Names that kustomize would download.
        others: Folders that the kustomization names in any field.
        settings_folders: Folders with transformers, generators and validators.
        changes: Whether the kustomization makes or changes texts of its objects.
    """

    folder: str
    is_component: bool
    below: tuple[str, ...]
    resources: frozenset[str]
    patches: frozenset[str]
    settings: frozenset[str]
    inline: tuple[str, ...]
    remote: tuple[str, ...]
    others: tuple[str, ...]
    settings_folders: frozenset[str]
    changes: bool


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
        (value,) = documents(_content(name))
    except (OSError, InputError, ValueError):
        return None
    fields = mapping(value)
    folder = os.path.realpath(folder)
    paths = [_real(folder, text(entry)) for entry in _entries(fields, _RESOURCES)]
    patches = {
        _real(folder, text(entry) or text(mapping(entry).get("path")))
        for entry in _entries(fields, _PATCHES)
    }
    configurations = tuple(filter(None, map(text, _entries(fields, _CONFIGURATIONS))))
    settings = {_real(folder, entry) for entry in configurations}
    return Kustomization(
        folder=folder,
        is_component=fields.get("kind") == "Component",
        below=tuple(path for path in paths if os.path.isdir(path)),
        resources=frozenset(filter(os.path.isfile, paths)),
        patches=frozenset(filter(os.path.isfile, patches)),
        settings=frozenset(filter(os.path.isfile, settings)),
        inline=configurations,
        remote=tuple(_remote(fields)),
        others=tuple(filter(os.path.isdir, {_real(folder, name) for name in _names(fields)})),
        settings_folders=frozenset(filter(os.path.isdir, settings)),
        changes=any(key.lower() in _CHANGES for key in fields),
    )


def _content(name: str) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file cannot be read.
        InputError: The file is no UTF-8, or larger than the largest document.
    """
    with open(name, "rb") as file:
        raw = file.read(SIZE_LIMIT + 1)
    if len(raw) > SIZE_LIMIT:
        raise InputError(f"more than {SIZE_LIMIT} bytes", "a smaller file", "Split it.")
    return decode(raw)


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
    others = {key: value for key, value in fields.items() if key.lower() not in _PATCHES}
    for name in _names(others):
        if match := _REMOTE.search(name) or _URL.search(name if "\n" in name else ""):
            yield match[1]
    for name in _names(_entries(fields, _PATCHES)):
        if "\n" not in name and (match := _REMOTE.search(name)):
            yield match[1]


def _refuse_downloads(kustomization: Kustomization) -> None:
    """Raise an error if kustomize would download something, or if that is not known.

    A transformer or generator may name a file in any of its fields, and kustomize reads all forms
    of YAML. So their texts are read as YAML, and those that cannot be read are refused. A folder of
    transformers must not change them, because a change can compose an address of several texts.

    Raises:
        NotRendered: The kustomization has remote parts, or may have some.
    """
    waiting = [(kustomization.folder, False)]
    seen = set(waiting)
    while waiting:
        folder, has_settings = waiting.pop()
        current = read(folder)
        if current is None:
            raise NotRendered("it has a kustomization that cannot be read")
        if has_settings and current.changes:
            raise NotRendered("it has a folder of transformers that changes them")
        files = current.settings | (current.resources if has_settings else frozenset())
        try:
            texts = (*current.inline, *map(_content, sorted(files)))
            addresses = (*current.remote, *(each for text_ in texts for each in _addresses(text_)))
        except (OSError, InputError):
            raise NotRendered("it has a transformer or generator that cannot be read") from None
        if addresses:
            reason = "it has remote parts, which are not downloaded"
            raise NotRendered(f"{reason}: {printable(addresses[0])}")
        for below in current.others:
            entry = (below, has_settings or below in current.settings_folders)
            if entry not in seen and file_of(below):
                seen.add(entry)
                waiting.append(entry)


def _addresses(configuration: str) -> Iterator[str]:
    """Yield the addresses in the text of a transformer or generator, or in the name of its file.

    Raises:
        InputError: The text cannot be read as YAML.
    """
    for name in (configuration, *_names(documents(configuration))):
        if match := _URL.search(name):
            yield match[1]


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
    _refuse_downloads(kustomization)
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


def _entries(fields: Mapping[str, object], keys: Collection[str]) -> list[object]:
    """Return the entries of the lists in the fields whose names in lower case are given."""
    return [
        entry for key, value in fields.items() if key.lower() in keys for entry in sequence(value)
    ]


def _real(folder: str, entry: str) -> str:
    """Return the real path of a kustomization's entry; empty for what is no path, as a patch is.

    Any text may be a path, also one like an address or with a line break. kustomize cleans it
    before it follows links, of which it follows at most 255 (Go's filepath.Join, EvalSymlinks).
    """
    path = os.path.normpath(os.path.join(folder, entry))
    if not entry or "\0" in path or len(path) > _LONGEST_PATH:
        return ""
    try:
        return os.path.realpath(path)
    except RecursionError:
        return ""
