"""Read a Helm chart: Chart.yaml, values, templates, schema, CustomResourceDefinitions.

A chart is untrusted input: it is read in memory and with size limits, and its templates are not
executed.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from gpu_cluster.base.nesting import LOADER, bound_depth
from gpu_rules.faults import PartError

# Limits of one chart: number of files, bytes of a file and of all files, levels of subcharts.
# NVIDIA's largest file, the definition of ClusterPolicy, is smaller than 1 MiB.
FILES = 2000
BYTES = 8 * 1024 * 1024
ALL_BYTES = 64 * 1024 * 1024
LEVELS = 4

_VALUE = re.compile(r"\.Values\.((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)")


@dataclass(frozen=True)
class ChartContents:
    """Content of a Helm chart.

    Attributes:
        name: Name in Chart.yaml.
        version: Version in Chart.yaml.
        values: Default values.
        read: Paths of the values that occur in templates and in conditions of subcharts.
        schema: JSON schema of the values; None if the chart has none.
        definitions: CustomResourceDefinitions of the chart, by name.
        subcharts: Content of each subchart, by the key of the subchart's values.
    """

    name: str
    version: str
    values: Mapping[str, Any] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    schema: Mapping[str, Any] | None = None
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    subcharts: Mapping[str, ChartContents] = field(default_factory=dict)


def of_archive(content: bytes) -> ChartContents:
    """Return the content of a packed chart.

    Raises:
        ValueError: The archive can't be read, or exceeds a limit.
    """
    files = _unpack_files(content)
    roots = {path.parts[0] for path in files}
    if len(roots) != 1:
        raise PartError("an archive without one folder at its top")
    return _read_chart({PurePosixPath(*path.parts[1:]): text for path, text in files.items()}, 0)


def of_folder(folder: Path) -> ChartContents:
    """Return the content of a chart's folder.

    Raises:
        ValueError: A file is no valid part of a chart, or a limit is exceeded.
        OSError: A file can't be read.
    """
    files: dict[PurePosixPath, bytes] = {}
    total = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        total = _bound_size(len(files), total, path.stat().st_size)
        files[PurePosixPath(path.relative_to(folder))] = path.read_bytes()
    return _read_chart(files, 0)


def _bound_size(count: int, total: int, size: int) -> int:
    """Return the number of bytes of a chart's files with one more file.

    Args:
        count: Number of files so far.
        total: Number of bytes of these files.
        size: Number of bytes of the next file.

    Raises:
        ValueError: The next file exceeds a limit.
    """
    if count >= FILES or size > BYTES or total + size > ALL_BYTES:
        raise PartError(f"more than {FILES} files or {BYTES} bytes in a file")
    return total + size


def _unpack_files(content: bytes) -> dict[PurePosixPath, bytes]:
    files: dict[PurePosixPath, bytes] = {}
    try:
        unpacker = zlib.decompressobj(wbits=31)
        unpacked = unpacker.decompress(content, ALL_BYTES)
        if not unpacker.eof:
            raise PartError(f"more than {ALL_BYTES} bytes, or a part of an archive")
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            total = 0
            for member in archive:
                path = PurePosixPath(member.name)
                if not member.isfile() or not path.parts:
                    continue
                total = _bound_size(len(files), total, member.size)
                opened = archive.extractfile(member)
                files[path] = opened.read() if opened else b""
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise PartError(f"no archive that can be read ({type(error).__name__})") from None
    return files


def _read_chart(files: Mapping[PurePosixPath, bytes], level: int) -> ChartContents:
    if level > LEVELS:
        raise PartError(f"subcharts more than {LEVELS} levels deep")
    about = _as_mapping(_first_document(files.get(PurePosixPath("Chart.yaml"), b"")))
    if not about:
        raise PartError("no Chart.yaml that can be read")
    templates = [
        text.decode(errors="replace")
        for path, text in files.items()
        if path.parts[0] == "templates"
    ]
    schema = files.get(PurePosixPath("values.schema.json"))
    try:
        parsed = _as_mapping(json.loads(schema)) if schema else None
    except (ValueError, RecursionError):
        raise PartError("a values.schema.json that can't be read") from None
    return ChartContents(
        name=str(about.get("name", "")),
        version=str(about.get("version", "")),
        values=_as_mapping(_first_document(files.get(PurePosixPath("values.yaml"), b""))),
        read=frozenset(
            [path for text in templates for path in _VALUE.findall(text)]
            + _subchart_conditions(about)
        ),
        schema=parsed,
        definitions=dict(_read_definitions(files)),
        subcharts=_read_subcharts(about, files, level),
    )


def _read_subcharts(
    about: Mapping[str, Any], files: Mapping[PurePosixPath, bytes], level: int
) -> dict[str, ChartContents]:
    groups: dict[str, dict[PurePosixPath, bytes]] = {}
    charts: list[ChartContents] = []
    for path, text in files.items():
        if path.parts[0] != "charts" or len(path.parts) < 2:
            continue
        if len(path.parts) == 2 and path.suffix == ".tgz":
            below = _unpack_files(text)
            inner = {
                PurePosixPath(*path_below.parts[1:]): content
                for path_below, content in below.items()
            }
            charts.append(_read_chart(inner, level + 1))
        elif len(path.parts) > 2:
            groups.setdefault(path.parts[1], {})[PurePosixPath(*path.parts[2:])] = text
    charts += [_read_chart(group, level + 1) for group in groups.values()]
    listed = about.get("dependencies")
    names = {
        str(entry.get("name")): str(entry.get("alias") or entry.get("name"))
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, Mapping)
    }
    return {names.get(chart.name, chart.name): chart for chart in charts}


def _subchart_conditions(about: Mapping[str, Any]) -> list[str]:
    """Return the paths of the values that enable subcharts (Helm documentation, "Condition")."""
    listed = about.get("dependencies")
    return [
        path.strip()
        for entry in (listed if isinstance(listed, list) else ())
        for path in str(_as_mapping(entry).get("condition", "")).split(",")
        if path.strip()
    ]


def _read_definitions(
    files: Mapping[PurePosixPath, bytes],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, text in files.items():
        if path.parts[0] != "crds" or path.suffix not in (".yaml", ".yml"):
            continue
        for document in _load_documents(text):
            item = _as_mapping(document)
            if item.get("kind") == "CustomResourceDefinition":
                yield str(_as_mapping(item.get("metadata")).get("name", "")), item


def _first_document(text: bytes) -> Any:
    return next(iter(_load_documents(text)), None)


def _load_documents(text: bytes) -> list[Any]:
    try:
        bound_depth(text)
        return list(yaml.load_all(text, LOADER))  # `LOADER` is a subclass of PyYAML's SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        raise PartError("a file of YAML that can't be read") from error


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
