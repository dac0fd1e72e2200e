"""Paths of a node that lead to its GPUs, for rules and twins."""

from __future__ import annotations

import re

from .. import cel

# What gives GPUs, or lets a container start others that have them; /dev/null by a mount below
# /var/run/nvidia-container-devices (nvidia-container-toolkit 1.20.0, cuda_image.go).
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
)

PROCESS_ROOT = "^/proc/([0-9]+|self|thread-self)/(root|cwd)(/|$)"
"""What a process sees as its file system: of process 1 that of the host."""

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
    {"/", "/dev", "/run", "/var/run", "/var", "/var/lib", "/var/lib/kubelet"}
    | {"/etc", "/etc/kubernetes"}
    | {socket.rpartition("/")[0] for socket in SOCKETS}
)


def gives_gpus(path: str) -> bool:
    """Whether a path, without `.` and `//`, gives GPUs or lets others be started that have some."""
    through = re.match(PROCESS_ROOT, path) is not None
    return path.startswith(GIVES_GPUS) or path in SOCKETS or through


def gives_gpus_cel(path: str) -> str:
    """The same in CEL."""
    starts = " || ".join(f"{path}.startsWith({cel.text(prefix)})" for prefix in GIVES_GPUS)
    through = f"{path}.matches({cel.text(PROCESS_ROOT)})"
    return f"({starts} || {path} in {cel.texts(SOCKETS)} || {through})"
