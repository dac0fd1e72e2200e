"""Scripts of phase `cluster`: a host creates the stack's cluster, or joins it."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.kubeadm.configuration import (
    SOCKETS,
    etcd_settings,
    init_configuration,
    join_configuration,
    kube_vip_settings,
    lent_configuration,
    token_configuration,
)
from gpu_cluster.hosts.phases import PACKAGE_LIBRARY, common
from gpu_cluster.hosts.script import COMMON, Bundle, Declaration, assemble, library
from gpu_cluster.settings.hosts.kubeadm_init import Init
from gpu_cluster.settings.hosts.kubernetes_packages import Join

LIBRARY = library(*COMMON, *PACKAGE_LIBRARY, "joined")
MEMBER = Bundle("init", ("library/init",))
ACCESS = Bundle("access", ("library/access",))
CONTROL_PLANE = Bundle(
    "member", ("library/etcd", "library/certificates", "library/kube_vip", "library/member")
)
LEND = Bundle("lend", ("library/etcd", "library/lend"))
JOINING = (LIBRARY, MEMBER)
"""Bundles that the script of a joining host reads."""
RESET_LIMIT = 300
"""Seconds for `kubeadm reset` (`steps/library/joined.sh`)."""


def init_script(host: DesiredHost, *, inline: bool = False) -> Declaration:
    """Return the script that runs `kubeadm init` on the first control-plane host.

    The host joins the control plane instead if `gpu_cluster.hosts.kubeadm.lending` found another
    member: then it takes the place of a lost host.

    Args:
        host: The control-plane host.
        inline: Whether the script contains the text of its files, as in `assemble`.
    """
    init, runtime = _init_settings(host), host.sections.runtime
    version = host.sections.kubernetes_packages.version or ""
    settings = {
        **_control_plane_settings(host, "init"),
        "GC_INIT": init_configuration(version, init, host, runtime),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER, CONTROL_PLANE), inline=inline)


def join_script(host: DesiredHost, token: str, hashes: tuple[str, ...]) -> Declaration:
    """Return the script of a joining host, which is a secret because it contains the token.

    Args:
        host: The host that joins.
        token: Bootstrap token that `access_script` printed.
        hashes: Hashes of the cluster's authority, each `sha256:…`.
    """
    init, runtime = _init_settings(host), host.sections.runtime
    join = Join(endpoint=init.endpoint, ca_cert_hashes=hashes)
    version, more = host.sections.kubernetes_packages.version or "", init.node_registration
    settings = {
        **_script_settings(host, "join"),
        "GC_JOIN": join_configuration(version, join, host, token, runtime.engine, more),
        "GC_JOIN_LIMIT": str(init.timeout_seconds),
    }
    return assemble(settings, {}, JOINING)


def member_script(host: DesiredHost, *, inline: bool = False) -> Declaration:
    """Return the script of a host that joins the control plane.

    The script contains no secret: `gpu_cluster.hosts.kubeadm.lending` writes token and certificate
    key to the host's memory before the script runs.

    Args:
        host: The host that joins.
        inline: Whether the script contains the text of its files, as in `assemble`.
    """
    settings = _control_plane_settings(host, "member")
    return assemble(settings, {}, (LIBRARY, MEMBER, CONTROL_PLANE), inline=inline)


def lend_script(host: DesiredHost, joining: str, members: Iterable[str]) -> Declaration:
    """Return the script that prints what a host needs to join the control plane.

    Args:
        host: A host of the control plane.
        joining: Name of the node that joins. Empty: the script only deletes what the last join
            needed.
        members: Names of the declared control-plane nodes.
    """
    version, init = host.sections.kubernetes_packages.version or "", _init_settings(host)
    settings = {
        **_script_settings(host, "member"),
        **etcd_settings(init),
        "GC_TOKEN": lent_configuration(version, init, host),
        "GC_JOINING": joining,
        "GC_MEMBERS": " ".join(members),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER, LEND), inline=True)


def access_script(
    host: DesiredHost, joining: Iterable[str], *, inline: bool = False
) -> Declaration:
    """Return the script that prints a join token, CA hashes and the administrator's kubeconfig.

    The script contains the names of the joining nodes, so that it runs again if a host is added.

    Args:
        host: The control-plane host.
        joining: Names of the nodes that join.
        inline: Whether the script contains the text of its files, as in `assemble`.
    """
    version = host.sections.kubernetes_packages.version or ""
    settings = {
        **_script_settings(host, "init"),
        "GC_PHASE": "access",
        "GC_TOKEN": token_configuration(version),
        "GC_NODES": " ".join(joining),
    }
    return assemble(settings, {}, (LIBRARY, MEMBER, ACCESS), inline=inline)


def member_seconds(host: DesiredHost) -> int:
    """Return kubeadm's time limit in seconds, including a reset after a run that was killed."""
    return _init_settings(host).timeout_seconds + RESET_LIMIT


def _init_settings(host: DesiredHost) -> Init:
    init = host.sections.kubernetes_packages.init
    if init is None:
        raise ValueError(
            "kubernetesPackages.init: found none; cure: declare it for the first control plane"
        )
    return init


def _control_plane_settings(host: DesiredHost, member: str) -> dict[str, str]:
    init = _init_settings(host)
    return {
        **_script_settings(host, member),
        **etcd_settings(init),
        **kube_vip_settings(init),
        "GC_MAY_LOSE_ETCD": "" if init.protect else "true",
    }


def _script_settings(host: DesiredHost, member: str) -> dict[str, str]:
    init, engine = _init_settings(host), host.sections.runtime.engine
    return {
        "GC_PHASE": "cluster",
        **common(host, remove=host.sections.packages.remove),
        "GC_MEMBER": member,
        "GC_NODE": host.node,
        "GC_MEMBER_LIMIT": str(init.timeout_seconds),
        "GC_CRI_SOCKET": SOCKETS.get(engine, ""),
        "GC_JOIN_ENDPOINT": init.endpoint,
    }
