"""Find Helm charts among files, and render them with `helm` or Pulumi's Kubernetes plugin."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .. import charts
from ..faults import InputError
from ..rules.unknown import mapping
from .document import CHART
from .parse import SIZE_LIMIT, documents
from .stream import decode
from .tool import NotRendered, output_of, shortened

KIND: Final = "Helm chart"
_PARTS: Final = ("templates", "charts")
"""Folders of a chart whose files are no manifests before the chart is rendered."""
_SOURCE: Final = re.compile(r"^# Source: ([^\n]+)$", re.MULTILINE)
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


def render(folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the objects that a chart renders with its own values, each with its file.

    Nothing is yielded for a library chart, which renders nothing.

    Raises:
        NotRendered: No program to render it was found, or the chart cannot be rendered.
    """
    described = _described(folder)
    if described.get("type") == "library":
        return
    if helm := shutil.which("helm"):
        arguments = ["template", "release", folder, f"--kube-version={charts.KUBE_VERSION}"]
        yield from _objects(output_of([os.path.abspath(helm), *arguments]), folder)
    elif charts.plugin_path() and find_spec("pulumi") and find_spec("grpc"):
        try:
            objects = charts.rendered({"chart": folder, "values": {}})
        except charts.NotRendered as error:
            raise NotRendered(shortened(str(error))) from None
        for manifest in objects:
            yield os.path.join(folder, CHART), manifest
    else:
        raise NotRendered("helm is not on PATH")


def _described(folder: str) -> Mapping[str, object]:
    try:
        raw = Path(folder, CHART).read_bytes()[: SIZE_LIMIT + 1]
        return mapping(next(iter(documents(decode(raw))), None))
    except (OSError, InputError) as error:
        raise NotRendered(f"{CHART} cannot be read: {error}") from None


def _objects(rendered: str, folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the objects of helm's output; each begins with a comment that names its template."""
    for text in re.split(r"^---\s*$", rendered, flags=re.MULTILINE):
        source = _SOURCE.search(text)
        # The name begins with the chart's name in the place of its folder.
        inside = source[1].partition("/")[2] if source else CHART
        name = os.path.normpath(os.path.join(folder, inside))
        if os.path.commonpath([name, folder]) != folder:
            name = os.path.join(folder, CHART)
        try:
            values = documents(text)
        except InputError as error:
            raise NotRendered(f"{inside}: what it renders is no YAML: {error.found}") from None
        for value in values:
            if manifest := mapping(value):
                yield name, manifest
