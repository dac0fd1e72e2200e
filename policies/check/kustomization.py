"""Read kustomizations, and build them with `kustomize build` or `kubectl kustomize`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ..faults import InputError
from ..rules.unknown import mapping, sequence, text
from .parse import SIZE_LIMIT, documents
from .stream import decode
from .tool import NotRendered, output_of

NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
KIND: Final = "kustomization"
_RESOURCES: Final = ("resources", "bases", "components", "crds")
_PATCHES: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")
_CONFIGURATIONS: Final = ("configurations", "transformers", "generators", "validators")
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
    """

    folder: str
    is_component: bool
    below: tuple[str, ...]
    resources: frozenset[str]
    patches: frozenset[str]
    settings: frozenset[str]


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
    named = [_real(folder, entry) for key in _RESOURCES for entry in _entries(fields, key)]
    patches = {
        _real(folder, text(entry) or text(mapping(entry).get("path")))
        for key in _PATCHES
        for entry in sequence(fields.get(key))
    }
    settings = {_real(folder, entry) for key in _CONFIGURATIONS for entry in _entries(fields, key)}
    return Kustomization(
        folder=folder,
        is_component=fields.get("kind") == "Component",
        below=tuple(path for path in named if os.path.isdir(path)),
        resources=frozenset(filter(os.path.isfile, named)),
        patches=frozenset(filter(os.path.isfile, patches)),
        settings=frozenset(filter(os.path.isfile, settings)),
    )


def with_all_below(one: Kustomization) -> Iterator[Kustomization]:
    """Yield a kustomization and all kustomizations that it includes, also indirectly, each once."""
    waiting, seen = [one], {one.folder}
    while waiting:
        current = waiting.pop()
        yield current
        for folder in current.below:
            if folder not in seen and (inner := read(folder)):
                seen.add(folder)
                waiting.append(inner)


def build(one: Kustomization) -> list[tuple[str, Mapping[str, object]]]:
    """Build a kustomization, and return its objects, each with the name of its source file.

    kustomize builds a temporary kustomization that includes the given one and sets
    `buildMetadata: [originAnnotations]`. kustomize then writes the source file of each object into
    an annotation (sigs.k8s.io/kustomize api/types/kustomization.go, BuildMetadata).

    Raises:
        NotRendered: Neither kustomize nor kubectl is on PATH, or the build fails.
    """
    command = _command()
    with tempfile.TemporaryDirectory(prefix="gpu-rules-build-") as around:
        around = os.path.realpath(around)
        wrapper = {
            "resources": [os.path.relpath(one.folder, around)],
            "buildMetadata": ["originAnnotations"],
        }
        Path(around, NAMES[0]).write_text(json.dumps(wrapper))
        try:
            values = documents(output_of([*command, around]))
        except InputError as error:
            raise NotRendered(f"its output cannot be read: {error.found}") from None
        return [_built(mapping(value), around, one.folder) for value in values]


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
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    if annotations:
        kept["annotations"] = annotations
    # The origin annotation of a generated object has no path.
    path = os.path.normpath(os.path.join(around, name)) if name else file_of(folder) or folder
    return path, {**manifest, "metadata": kept}


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
