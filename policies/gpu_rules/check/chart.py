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
"""Subfolders of a Helm chart whose files are manifests only after the chart is rendered."""
_SOURCE: Final = re.compile(r"^# Source: ([^\n]+)$", re.MULTILINE)
_RELEASE: Final = "release"
"""Name and namespace for `helm template`: some charts refuse the namespace `default`."""
_VALUES: Final = ("values.yaml", "values.yml", "values.schema.json", CHART)


def chart_of(real: str) -> str | None:
    """Return the folder of the outermost Helm chart to which a file belongs, or None.

    Args:
        real: Real path of the file.
    """
    folder, base = os.path.split(real)
    found = folder if base in _VALUES and _is_chart(folder) else None
    return _outermost(folder) or found


@cache
def _outermost(folder: str) -> str | None:
    """Return the outermost Helm chart with a folder inside its `templates` or `charts`, or None."""
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
    """The objects that a Helm chart renders with its default values.

    Attributes:
        objects: The objects, each with the name of its template file.
        left_out: Names of the dependencies that are missing in the chart's folder `charts`.
    """

    objects: tuple[tuple[str, Mapping[str, object]], ...] = ()
    left_out: tuple[str, ...] = ()


def render(folder: str) -> Rendered:
    """Render a Helm chart with its default values; a library chart renders nothing.

    Dependencies that are missing in the chart's folder `charts` are not rendered:
    `helm dependency build` would have to download them first.

    Raises:
        NotRendered: `helm` is not on PATH, or helm cannot render the chart.
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
    """Return whether a chart's folder `charts` has a dependency, as a folder or an archive."""
    inside = Path(folder, "charts")
    names = [path.name for path in inside.iterdir()] if inside.is_dir() else []
    return any(name == dependency or name.startswith(f"{dependency}-") for name in names)


def _rendered(copy: str, folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Render a chart with `helm template`, and yield its objects with their template files.

    Args:
        copy: Folder that helm renders: the chart, or a copy without missing dependencies.
        folder: Folder of the original chart, for the names of the template files.
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
    """Yield the objects in the output of `helm template`, with their template files.

    helm writes a comment with the name of the template before each object.
    """
    for part in re.split(r"^---\s*$", rendered, flags=re.MULTILINE):
        source = _SOURCE.search(part)
        # The first part of the name in helm's comment is the name of the chart, not of its folder.
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
