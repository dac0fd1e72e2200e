"""Host paths that give access to GPUs, for the rules in Python and in CEL."""

from __future__ import annotations

import posixpath
import re
from pathlib import PurePosixPath
from typing import Final

from ...context import Context
from ...facts.host_folders import VOLUMES
from .. import cel

# Prefixes of host paths that give access to GPUs, or let a container start other containers with
# GPUs. /dev/null counts because a mount of it below /var/run/nvidia-container-devices requests
# devices (nvidia-container-toolkit 1.20.0, cuda_image.go). Container-Optimized OS mounts folders
# of /mnt/stateful_partition as /var, /etc and /home.
GIVES_GPUS = (
    *(
        "/dev/null",
        "/dev/nvidia",
        "/dev/nvhost",
        "/dev/nvmap",
        "/dev/dri",
        "/dev/kfd",
        "/dev/vfio",
        "/dev/char",
        "/run/nvidia",
        "/var/run/nvidia",
        "/tmp/nvidia-mps",  # noqa: S108
    ),
    *("/var/lib/kubelet/device-plugins", "/etc/cdi", "/run/cdi", "/var/run/cdi"),
    *("/etc/containerd", "/etc/kubernetes/manifests", "/etc/nvidia-container-runtime"),
    *("/run/nri", "/var/run/nri", "/etc/nri", "/opt/nri"),
    *("/run/docker", "/var/run/docker"),
    *(f"/mnt/stateful_partition/{folder}" for folder in ("var", "etc", "home")),
)
DIRECT = (
    *("/dev/nvidia", "/dev/nvhost", "/dev/nvmap"),
    *("/dev/dri", "/dev/kfd", "/dev/char", "/dev/null"),
)
"""Host paths in `GIVES_GPUS` that are device files."""

ELSEWHERE = "^/proc/[^/]+/(task/[^/]+/)?(root|cwd|fd|map_files)(/|$)|/[.][.](/|$)"
"""Pattern of the root, working directory and open files of a process in /proc, and of a thread, of
which those of process 1 are the host's, and of a path with `..`. The API server refuses `..` in
host paths, but not in what a volume gives its driver.
"""

SOCKETS = frozenset(
    f"{folder}/{name}"
    for folder in ("/run", "/var/run")
    for name in (
        "containerd/containerd.sock",
        "containerd/containerd.sock.ttrpc",
        "crio/crio.sock",
        "k3s/containerd/containerd.sock",
        "cri-dockerd.sock",
        "podman/podman.sock",
    )
)

PARENTS = frozenset(
    str(parent)
    for path in (*GIVES_GPUS, *SOCKETS)
    for parent in PurePosixPath(path).parents
    if not str(parent).startswith(GIVES_GPUS)
)
"""The folders above paths that give access to GPUs."""

_VOLUME_ROOTS: Final = tuple(f"{root}/" for root in sorted(VOLUMES))


def gives_gpus(path: str) -> bool:
    """Return whether a host path gives access to GPUs, directly or by starting other containers.

    Args:
        path: Path without `.` and `//`.
    """
    through = re.search(ELSEWHERE, path) is not None
    return path.startswith(GIVES_GPUS) or path in SOCKETS or through


def direct_cel(path: str) -> str:
    """Return CEL that is true if a host path is that of a GPU device file (`DIRECT`)."""
    return "(" + " || ".join(f"{path}.startsWith({cel.text(prefix)})" for prefix in DIRECT) + ")"


def gives_gpus_cel(path: str) -> str:
    """Return CEL that is true if a host path gives access to GPUs (`gives_gpus` as CEL)."""
    starts = " || ".join(f"{path}.startsWith({cel.text(prefix)})" for prefix in GIVES_GPUS)
    through = f"{path}.matches({cel.text(ELSEWHERE)})"
    return f"({starts} || {path} in {cel.texts(SOCKETS)} || {through})"


def is_allowed(path: str, context: Context) -> bool:
    """Return whether the settings allow a host path that doesn't give access to GPUs by itself.

    Args:
        path: Path without `.` and `//`.
        context: Facts about the cluster.
    """
    listed = context.allowed_host_paths
    below = posixpath.join(posixpath.dirname(path), "*")
    return path not in PARENTS and (path in listed or below in listed)


def is_allowed_cel(path: str) -> str:
    """Return CEL that is true if the settings allow a host path (`is_allowed` as CEL)."""
    listed = cel.parameter("allowedHostPaths")
    below = f'{path}.substring(0, {path}.lastIndexOf("/")) + "/*"'
    return (
        f"(!({path} in {cel.texts(PARENTS)}) && [{listed}].exists(l, {path} in l || {below} in l))"
    )


def is_for_volumes(path: str) -> bool:
    """Return whether a path is below a folder for the data of PersistentVolumes."""
    return path not in PARENTS and f"{path}/".startswith(_VOLUME_ROOTS)


def is_for_volumes_cel(path: str) -> str:
    """Return CEL that is true if a path is below a folder for data (`is_for_volumes` as CEL)."""
    starts = " || ".join(f'({path} + "/").startsWith({cel.text(root)})' for root in _VOLUME_ROOTS)
    return f"(!({path} in {cel.texts(PARENTS)}) && ({starts}))"
