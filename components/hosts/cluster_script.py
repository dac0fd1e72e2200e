"""The scripts of phase ``cluster``: a host makes the stack's own cluster, or joins it."""

from __future__ import annotations

from components.hosts.kubeadm import (
    SOCKETS,
    init_configuration,
    join_configuration,
    token_configuration,
)
from components.hosts.script import COMMON, Bundle, Declaration, assemble, library
from components.hosts.settings.host import Host
from components.hosts.settings.kubernetes_packages import Join
from components.hosts.settings.new_cluster import Init
from components.hosts.software import PACKAGE_LIBRARY, common
from components.settings.cluster import Cluster

LIBRARY = library(*COMMON, *PACKAGE_LIBRARY, "joined")
MEMBER = Bundle("init", ("init",))
ACCESS = Bundle("access", ("access",))
JOINING = (LIBRARY, MEMBER)
"""What a host that joins reads."""
RESET_LIMIT = 300
"""Seconds for `kubeadm reset` (``steps/library/joined.sh``)."""


def init_script(cluster: Cluster, host: Host, *, inline: bool = False) -> Declaration:
    """The script of the one control-plane host.

    Args:
        cluster: as this host sees it (`Cluster.of`).
        host: the control-plane host.
        inline: as in `assemble`.
    """
    init, runtime = _init(cluster), host.runtime or cluster.runtime
    version = cluster.kubernetes_packages.version or ""
    settings = {
        **_settings(cluster, host, "init"),
        "GC_INIT": init_configuration(version, init, host, runtime),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER), inline=inline)


def join_script(cluster: Cluster, host: Host, token: str, hashes: tuple[str, ...]) -> Declaration:
    """The script of a host that joins: a secret, for the token is in it.

    Args:
        cluster: as this host sees it.
        host: who joins.
        token: what `access_script` printed.
        hashes: of the cluster's authority, ``sha256:…``.
    """
    init, runtime = _init(cluster), host.runtime or cluster.runtime
    join = Join(endpoint=init.endpoint, ca_cert_hashes=hashes)
    version, more = cluster.kubernetes_packages.version or "", init.node_registration
    settings = {
        **_settings(cluster, host, "join"),
        "GC_JOIN": join_configuration(version, join, host, token, runtime.engine, more),
        "GC_JOIN_LIMIT": str(init.timeout_seconds),
    }
    return assemble(settings, {}, JOINING)


def access_script(cluster: Cluster, host: Host, *, inline: bool = False) -> Declaration:
    """The script that prints a token and a hash, then the administrator's kubeconfig.

    It runs again where another host joins: the names are in it.

    Args:
        cluster: as this host sees it.
        host: the control-plane host.
        inline: as in `assemble`.
    """
    version = cluster.kubernetes_packages.version or ""
    settings = {
        **_settings(cluster, host, "init"),
        "GC_PHASE": "access",
        "GC_TOKEN": token_configuration(version),
        "GC_NODES": " ".join(host.node for host in cluster.joining_hosts),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER, ACCESS), inline=inline)


def member_seconds(cluster: Cluster, _: Host) -> int:
    """Seconds that kubeadm may take: after one that was killed, a reset comes first."""
    return _init(cluster).timeout_seconds + RESET_LIMIT


def _init(cluster: Cluster) -> Init:
    init = cluster.kubernetes_packages.init
    if init is None:
        raise ValueError("kubernetesPackages.init: found none")
    return init


def _settings(cluster: Cluster, host: Host, member: str) -> dict[str, str]:
    init, engine = _init(cluster), (host.runtime or cluster.runtime).engine
    return {
        "GC_PHASE": "cluster",
        **common(cluster.packages.remove, cluster.packages.lock_seconds, cluster.proxy),
        "GC_MEMBER": member,
        "GC_NODE": host.node,
        "GC_MEMBER_LIMIT": str(init.timeout_seconds),
        "GC_CRI_SOCKET": SOCKETS.get(engine, ""),
        "GC_JOIN_ENDPOINT": init.endpoint,
    }
