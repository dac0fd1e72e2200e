"""POSIX sh for hosts: pure functions from settings to the text that a host's ``sh`` reads.

Each script is a header of assignments, every value quoted by :func:`shlex.quote`, then function
definitions, then one line that runs them with standard input closed. A script that arrives cut off
therefore does nothing. ``apply`` brings the host to what the header says, ``undo`` gives back what
was there before; the last line of standard output is ``changed=N``.
"""

from __future__ import annotations

from components.hosts.settings.host import Host, Role
from components.hosts.steps.container_engine import runtime
from components.hosts.steps.render import prepare
from components.hosts.steps.steps import steps
from components.settings.cluster import Cluster

__all__ = ["prepare_script", "runtime_script"]


def prepare_script(cluster: Cluster, host: Host, join_token: str | None = None) -> str:
    """The script of phase ``prepare`` for ``host``: nouveau is kept out of GPU hosts only.

    :param join_token: kubeadm's bootstrap token, where the host joins: the script is a secret then.
    """
    gpu = host.role is Role.GPU_WORKER
    return prepare(
        blacklist=("nouveau", "nova_core") if gpu else (),
        system=host.system or cluster.system,
        control_plane=host.role is Role.CONTROL_PLANE,
        package_limit=cluster.packages.lock_seconds,
        steps=steps(cluster, host, join_token),
    )


def runtime_script(cluster: Cluster, host: Host) -> str:
    """The script of phase ``runtime`` for ``host``."""
    return runtime(host.runtime or cluster.runtime)
