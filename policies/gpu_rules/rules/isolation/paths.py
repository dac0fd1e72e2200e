"""Host paths that give access to GPUs, for the rules in Python and in CEL."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from .. import cel

# Prefixes of host paths that give access to GPUs, or let a container start other containers with
# GPUs. /dev/null counts because a mount of it below /var/run/nvidia-container-devices requests
# devices (nvidia-container-toolkit 1.20.0, cuda_image.go).
GIVES_GPUS = (
    *(
        "/dev/null",
        "/dev/nvidia",
        "/dev/dri",
        "/dev/kfd",
        "/dev/char",
        "/run/nvidia",
        "/var/run/nvidia",
    ),
    *("/var/lib/kubelet/device-plugins", "/etc/cdi", "/run/cdi", "/var/run/cdi"),
    *("/etc/containerd", "/etc/kubernetes/manifests"),
    *("/run/nri", "/var/run/nri", "/etc/nri", "/opt/nri"),
)
DIRECT = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/char", "/dev/null")
"""Host paths in `GIVES_GPUS` that are device files."""

PROCESS_ROOT = "^/proc/([0-9]+|self|thread-self)/(root|cwd)(/|$)"
"""Pattern of the root and working directory of a process in /proc; those of process 1 are the
host's.
"""

SOCKETS = frozenset(
    f"{folder}/{name}"
    for folder in ("/run", "/var/run")
    for name in (
        "docker.sock",
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


def gives_gpus(path: str) -> bool:
    """Return whether a host path gives access to GPUs, directly or by starting other containers.

    Args:
        path: Path without `.` and `//`.
    """
    through = re.match(PROCESS_ROOT, path) is not None
    return path.startswith(GIVES_GPUS) or path in SOCKETS or through


def direct_cel(path: str) -> str:
    """Return CEL that is true if a host path is that of a GPU device file (`DIRECT`)."""
    return "(" + " || ".join(f"{path}.startsWith({cel.text(prefix)})" for prefix in DIRECT) + ")"


def gives_gpus_cel(path: str) -> str:
    """Return CEL that is true if a host path gives access to GPUs (`gives_gpus` as CEL)."""
    starts = " || ".join(f"{path}.startsWith({cel.text(prefix)})" for prefix in GIVES_GPUS)
    through = f"{path}.matches({cel.text(PROCESS_ROOT)})"
    return f"({starts} || {path} in {cel.texts(SOCKETS)} || {through})"
