"""Node agents: DaemonSets that request no GPUs, and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..context import Context
from . import cel
from .gpus import gpus_of
from .pod_claims import gpu_claims
from .pod_request import requests_gpu_resources
from .pod_spec import Pod
from .rule import Subject
from .unknown import at, sequence, text


def of_daemon_set(subject: Subject, context: Context) -> bool:
    """Return whether the object gets the relief of DaemonSets.

    It does if it is a DaemonSet or may be a pod of one, and if nobody has declared which namespaces
    are trusted to have node agents.
    """
    return not context.trust_is_declared and subject.daemon_set(context) is not None


def is_agent(subject: Subject, context: Context) -> bool:
    """Return whether an object is a node agent: a DaemonSet or its pod without GPU requests."""
    return of_daemon_set(subject, context) and not gpus_of(subject, context).may_have


def only_watches(subject: Subject, context: Context) -> bool:
    """Return whether an object is a node agent whose GPUs are all those of other claims.

    Such an agent, for example an exporter of metrics, claims devices with adminAccess and takes no
    GPU for itself.
    """
    pod = subject.pod
    return (
        pod is not None
        and of_daemon_set(subject, context)
        and not requests_gpu_resources(pod, context)
        and all(claim.shared for claim in gpu_claims(subject, context))
    )


def writable(pod: Pod) -> Iterator[str]:
    """Yield the names of the volumes that a container mounts with the right to write."""
    for container in pod.containers:
        for mount in sequence(container.spec.get("volumeMounts")):
            if at(mount, "readOnly") is not True:
                yield text(at(mount, "name"))


OF_DAEMON_SET: Final = f"(!{cel.TRUST_IS_DECLARED} && size({cel.DAEMON_SETS}) > 0)"
IS_AGENT: Final = f"({OF_DAEMON_SET} && !variables.mayHaveGpus)"
