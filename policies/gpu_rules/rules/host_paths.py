"""The host paths that a pod mounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from . import cel
from .agents import writable
from .pod_spec import Pod
from .unknown import at, mapping, sequence, text

_DRIVERS: Final = (("csi", "volumeAttributes"), ("flexVolume", "options"))
"""Fields with the texts that a volume gives its driver; a path of the node may be one of them."""
_WITH_PATH: Final = "^([^/]*:)?/"
"""Pattern of a text that is a path, or a path after a scheme or a server, as in `file:///dev`."""


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
        for key, raw in mapping(at(volume, source, field)).items():
            value = text(raw)
            if re.search(_WITH_PATH, value):
                yield f"{source}.{field}[{key}]", plain_path(value[value.index("/") :])


def driver_paths_cel(volume: str) -> str:
    """Return CEL for the paths that a volume gives its driver, as a list."""
    maps = (f"{volume}.?{source}.?{field}{cel.OR_MAP}" for source, field in _DRIVERS)
    paths = (
        f"{pairs}.filter(k, {pairs}[k].matches({cel.text(_WITH_PATH)}))"
        f'.map(k, {pairs}[k].substring({pairs}[k].indexOf("/"))).map(p, {plain_path_cel("p")})'
        for pairs in maps
    )
    return f"({' + '.join(paths)})"


def plain_path(path: str) -> str:
    """Return a path without `.` and `//`; `..` stays, since it leads out of where a link leads."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def plain_path_cel(path: str) -> str:
    """Return CEL for a path without `.` and `//` (`plain_path` as CEL)."""
    return f'"/" + {path}.split("/").filter(s, s != "" && s != ".").join("/")'
