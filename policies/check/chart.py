"""Find Helm charts among files, and render them with `helm`."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ..facts.kubernetes import KUBE_VERSION
from ..faults import InputError
from ..rules.unknown import mapping, sequence, text
from .document import CHART
from .parse import SIZE_LIMIT, documents
from .stream import decode
from .tool import NotRendered, output_of

KIND: Final = "Helm chart"
_PARTS: Final = ("templates", "charts")
"""Folders of a chart whose files are no manifests before the chart is rendered."""
_SOURCE: Final = re.compile(r"^# Source: ([^\n]+)$", re.MULTILINE)
_RELEASE: Final = "release"
"""Name and namespace of the release: some charts refuse the namespace `default`."""
_VALUES: Final = ("values.yaml", "values.yml", "values.schema.json", CHART)


def chart_of(name: str) -> str | None:
    """Return the folder of the outermost chart that a file is a part of, or None."""
    folder, base = os.path.split(os.path.realpath(name))
    found = folder if base in _VALUES and _is_chart(folder) else None
    return _outermost(folder) or found


@cache
def _outermost(folder: str) -> str | None:
    """Return the outermost chart in whose `templates` or `charts` a folder lies, or None."""
    above, name = os.path.split(folder)
    if above == folder:
        return None
    if outer := _outermost(above):
        return outer
    return above if name in _PARTS and _is_chart(above) else None


@cache
def _is_chart(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, CHART))


@dataclass(frozen=True)
class Rendered:
    """What a chart renders with its own values.

    Attributes:
        objects: The objects, each with the file that it stems from.
        left_out: Names of the charts that it depends on and that are not in its folder.
    """

    objects: tuple[tuple[str, Mapping[str, object]], ...] = ()
    left_out: tuple[str, ...] = ()


def render(folder: str) -> Rendered:
    """Return what a chart renders; a library chart renders nothing.

    Dependencies that are not in the chart's `charts` folder are left out: helm fetches them only
    with `helm dependency build`.

    Raises:
        NotRendered: No program to render it was found, or the chart cannot be rendered.
    """
    described = _described(folder)
    if described.get("type") == "library":
        return Rendered()
    named = [text(mapping(item).get("name")) for item in sequence(described.get("dependencies"))]
    missing = tuple(name for name in named if not _is_there(folder, name))
    if not missing:
        return Rendered(tuple(_rendered(folder, folder)))
    with tempfile.TemporaryDirectory(prefix="gpu-rules-chart-") as around:
        copy = os.path.join(around, os.path.basename(folder))
        shutil.copytree(folder, copy, symlinks=True)
        own = {key: value for key, value in described.items() if key != "dependencies"}
        Path(copy, CHART).write_text(json.dumps(own))
        return Rendered(tuple(_rendered(copy, folder)), missing)


def _is_there(folder: str, dependency: str) -> bool:
    """Return whether a chart's folder has a dependency, as a folder or as an archive."""
    inside = Path(folder, "charts")
    names = [path.name for path in inside.iterdir()] if inside.is_dir() else []
    return any(name == dependency or name.startswith(f"{dependency}-") for name in names)


def _rendered(copy: str, folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the objects of a chart.

    Args:
        copy: Folder of the chart that is rendered.
        folder: Folder whose files the objects stem from.
    """
    helm = shutil.which("helm")
    if helm is None:
        raise NotRendered("helm is not on PATH")
    options = [f"--kube-version={KUBE_VERSION}", f"--namespace={_RELEASE}"]
    command = [os.path.abspath(helm), "template", _RELEASE, copy, *options]
    yield from _objects(output_of(command), folder)


def _described(folder: str) -> Mapping[str, object]:
    try:
        raw = Path(folder, CHART).read_bytes()[: SIZE_LIMIT + 1]
        return mapping(next(iter(documents(decode(raw))), None))
    except (OSError, InputError) as error:
        raise NotRendered(f"{CHART} cannot be read: {error}") from None


def _objects(rendered: str, folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the objects of helm's output; each begins with a comment that names its template."""
    for part in re.split(r"^---\s*$", rendered, flags=re.MULTILINE):
        source = _SOURCE.search(part)
        # The name begins with the chart's name in the place of its folder.
        inside = source[1].partition("/")[2] if source else CHART
        name = os.path.normpath(os.path.join(folder, inside))
        if os.path.commonpath([name, folder]) != folder:
            name = os.path.join(folder, CHART)
        try:
            values = documents(part)
        except InputError as error:
            raise NotRendered(f"{inside}: what it renders is no YAML: {error.found}") from None
        for value in values:
            if manifest := mapping(value):
                yield name, manifest
