"""Node agents: DaemonSets that request no GPUs, and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from . import cel
from .context import Context
from .gpus import gpus_of
from .pod_spec import Pod
from .rule import Subject
from .unknown import UNKNOWN, at, holds_unknown, sequence, text


def of_daemon_set(subject: Subject) -> bool:
    """Return whether the object is a DaemonSet or may be a pod of a DaemonSet.

    Everybody can write an owner into a manifest. So an owner counts only in an object that was read
    from a cluster, which has given it a uid.
    """
    owners = at(subject.manifest, "metadata", "ownerReferences")
    stored = bool(text(at(subject.manifest, "metadata", "uid")))
    return (
        subject.kind == "DaemonSet"
        or owners is UNKNOWN
        or any(
            holds_unknown(owner)
            or (stored and at(owner, "kind") == "DaemonSet" and at(owner, "controller") is True)
            for owner in sequence(owners)
        )
    )


def is_agent(subject: Subject, context: Context) -> bool:
    """Return whether an object is a node agent: a DaemonSet or its pod without GPU requests."""
    return of_daemon_set(subject) and not gpus_of(subject, context).may_have


def writable(pod: Pod) -> Iterator[str]:
    """Yield the names of the volumes that a container mounts with the right to write."""
    for container in pod.containers:
        for mount in sequence(container.spec.get("volumeMounts")):
            if at(mount, "readOnly") is not True:
                yield text(at(mount, "name"))


# Every user can write an owner reference into a pod, so a pod counts as a DaemonSet's only if the
# DaemonSet controller creates it.
OF_DAEMON_SET: Final = (
    '(dyn(object).kind == "DaemonSet" || '
    f'(request.?userInfo.?username.orValue("") in {cel.parameter("daemonSetControllers")} && '
    f'object.metadata.?ownerReferences{cel.OR_LIST}.exists(o, o.kind == "DaemonSet" && '
    "o.?controller.orValue(false))))"
)
IS_AGENT: Final = f"({OF_DAEMON_SET} && !variables.mayHaveGpus)"
