"""The scripts of phase ``cluster``: a host makes the stack's own cluster, or joins it."""

from __future__ import annotations

from collections.abc import Iterable

from components.desired.host import DesiredHost
from components.hosts.kubeadm.configuration import (
    SOCKETS,
    init_configuration,
    join_configuration,
    token_configuration,
)
from components.hosts.phases import PACKAGE_LIBRARY, common
from components.hosts.script import COMMON, Bundle, Declaration, assemble, library
from components.settings.hosts.kubeadm_init import Init
from components.settings.hosts.kubernetes_packages import Join

LIBRARY = library(*COMMON, *PACKAGE_LIBRARY, "joined")
MEMBER = Bundle("init", ("library/init",))
ACCESS = Bundle("access", ("library/access",))
JOINING = (LIBRARY, MEMBER)
"""What a host that joins reads."""
RESET_LIMIT = 300
"""Seconds for `kubeadm reset` (``steps/library/joined.sh``)."""


def init_script(host: DesiredHost, *, inline: bool = False) -> Declaration:
    """The script of the one control-plane host.

    Args:
        host: the control-plane host.
        inline: as in `assemble`.
    """
    init, runtime = _init(host), host.sections.runtime
    version = host.sections.kubernetes_packages.version or ""
    settings = {
        **_settings(host, "init"),
        "GC_INIT": init_configuration(version, init, host, runtime),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER), inline=inline)


def join_script(host: DesiredHost, token: str, hashes: tuple[str, ...]) -> Declaration:
    """The script of a host that joins: a secret, for the token is in it.

    Args:
        host: who joins.
        token: what `access_script` printed.
        hashes: of the cluster's authority, ``sha256:…``.
    """
    init, runtime = _init(host), host.sections.runtime
    join = Join(endpoint=init.endpoint, ca_cert_hashes=hashes)
    version, more = host.sections.kubernetes_packages.version or "", init.node_registration
    settings = {
        **_settings(host, "join"),
        "GC_JOIN": join_configuration(version, join, host, token, runtime.engine, more),
        "GC_JOIN_LIMIT": str(init.timeout_seconds),
    }
    return assemble(settings, {}, JOINING)


def access_script(
    host: DesiredHost, joining: Iterable[str], *, inline: bool = False
) -> Declaration:
    """The script that prints a token and a hash, then the administrator's kubeconfig.

    It runs again where another host joins: the names are in it.

    Args:
        host: the control-plane host.
        joining: names of the nodes that join.
        inline: as in `assemble`.
    """
    version = host.sections.kubernetes_packages.version or ""
    settings = {
        **_settings(host, "init"),
        "GC_PHASE": "access",
        "GC_TOKEN": token_configuration(version),
        "GC_NODES": " ".join(joining),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER, ACCESS), inline=inline)


def member_seconds(host: DesiredHost) -> int:
    """Seconds that kubeadm may take: after one that was killed, a reset comes first."""
    return _init(host).timeout_seconds + RESET_LIMIT


def _init(host: DesiredHost) -> Init:
    init = host.sections.kubernetes_packages.init
    if init is None:
        raise ValueError("kubernetesPackages.init: found none")
    return init


def _settings(host: DesiredHost, member: str) -> dict[str, str]:
    init, engine = _init(host), host.sections.runtime.engine
    return {
        "GC_PHASE": "cluster",
        **common(host, remove=host.sections.packages.remove),
        "GC_MEMBER": member,
        "GC_NODE": host.node,
        "GC_MEMBER_LIMIT": str(init.timeout_seconds),
        "GC_CRI_SOCKET": SOCKETS.get(engine, ""),
        "GC_JOIN_ENDPOINT": init.endpoint,
    }
