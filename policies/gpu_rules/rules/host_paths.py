"""The host paths that a pod mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from .agents import writable
from .pod_spec import Pod
from .unknown import at, sequence, text


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


def plain_path(path: str) -> str:
    """Return a path without `.` and `//`."""
    # The prefix has three slashes, because normpath keeps two leading slashes.
    return posixpath.normpath(f"///{path}")
