"""Paths of the host that a pod mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from .pod_spec import Pod
from .unknown import at, sequence, text


def host_paths(pod: Pod) -> Iterator[tuple[int, str]]:
    """Each hostPath volume: its index under `spec.volumes`, its path without `.` and `//`."""
    for index, volume in enumerate(sequence(pod.spec.get("volumes"))):
        path = text(at(volume, "hostPath", "path"))
        if path:
            yield index, plain_path(path)


def plain_path(path: str) -> str:
    """A path without `.` and `//`."""
    return posixpath.normpath(f"///{path}")  # of two slashes it keeps both
