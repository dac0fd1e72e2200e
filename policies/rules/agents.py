"""Node agents: DaemonSets that request no GPUs, and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from . import cel
from .context import Context
from .gpus import gpus_of
from .pod_spec import Pod
from .rule import Subject
from .unknown import at, sequence, text


def of_daemon_set(subject: Subject) -> bool:
    """Return whether the object is a DaemonSet or may be a pod of a DaemonSet."""
    return subject.daemon_set is not None


def is_agent(subject: Subject, context: Context) -> bool:
    """Return whether an object is a node agent: a DaemonSet or its pod without GPU requests."""
    return of_daemon_set(subject) and not gpus_of(subject, context).may_have


def writable(pod: Pod) -> Iterator[str]:
    """Yield the names of the volumes that a container mounts with the right to write."""
    for container in pod.containers:
        for mount in sequence(container.spec.get("volumeMounts")):
            if at(mount, "readOnly") is not True:
                yield text(at(mount, "name"))


OF_DAEMON_SET: Final = f"(size({cel.DAEMON_SETS}) > 0)"
IS_AGENT: Final = f"({OF_DAEMON_SET} && !variables.mayHaveGpus)"
