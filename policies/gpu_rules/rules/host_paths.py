"""The host paths that a pod mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from . import cel
from .agents import writable
from .pod_spec import Pod
from .unknown import at, mapping, sequence, text

_DRIVERS: Final = (("csi", "volumeAttributes"), ("flexVolume", "options"))
"""Fields with the texts that a volume gives its driver; a path of the node may be one of them."""


def host_paths(pod: Pod) -> Iterator[tuple[int, str]]:
    """Yield the index in `spec.volumes` and the cleaned path of each hostPath volume."""
    for index, volume in enumerate(sequence(pod.spec.get("volumes"))):
        path = text(at(volume, "hostPath", "path"))
        if path:
            yield index, plain_path(path)


def mounted(pod: Pod) -> Iterator[tuple[int, str, bool]]:
    """Yield the index and the path of each hostPath volume, and whether a container can write."""
    names = set(writable(pod))
    volumes = sequence(pod.spec.get("volumes"))
    for index, path in host_paths(pod):
        yield index, path, text(at(volumes[index], "name")) in names


def driver_paths(volume: object) -> Iterator[tuple[str, str]]:
    """Yield the field and the cleaned path of each path that a volume gives its driver."""
    for source, field in _DRIVERS:
        for key, value in mapping(at(volume, source, field)).items():
            if text(value).startswith("/"):
                yield f"{source}.{field}[{key}]", plain_path(text(value))


def driver_paths_cel(volume: str) -> str:
    """Return CEL for the paths that a volume gives its driver, as a list."""
    maps = (f"{volume}.?{source}.?{field}{cel.OR_MAP}" for source, field in _DRIVERS)
    paths = (
        f'{pairs}.filter(k, {pairs}[k].startsWith("/")).map(k, {plain_path_cel(f"{pairs}[k]")})'
        for pairs in maps
    )
    return f"({' + '.join(paths)})"


def plain_path(path: str) -> str:
    """Return a path without `.` and `//`."""
    # The prefix has three slashes, because normpath keeps two leading slashes.
    return posixpath.normpath(f"///{path}")


def plain_path_cel(path: str) -> str:
    """Return CEL for a path without `.` and `//`; the API server refuses `..` in host paths."""
    return f'"/" + {path}.split("/").filter(s, s != "" && s != ".").join("/")'
