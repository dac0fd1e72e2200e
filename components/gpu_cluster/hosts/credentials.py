"""Checks of the SSH key and of the join token: both must be configured and well formed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.ssh.keys import PRIVATE_KEY
from gpu_rules.faults import Fault
from gpu_rules.printable import counted

TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
"""Pattern of kubeadm's bootstrap token (Kubernetes reference, "Bootstrap tokens")."""


def refused(
    hosts: Sequence[DesiredHost], private_key: str | None, join_token: str | None
) -> Iterator[Fault]:
    """Yield a fault for each missing or ill-formed credential of the hosts.

    Args:
        private_key: SSH private key. None: it is not known yet.
        join_token: kubeadm's bootstrap token. None: not configured.
    """
    if hosts and private_key == "":
        yield Fault(
            "private_key",
            "none",
            f"the key that logs in to {counted(len(hosts), 'host')}",
            f"`pulumi config set --secret gpu-cluster:sshPrivateKey < {PRIVATE_KEY}`, or name its "
            "file in GPU_CLUSTER_SSH_PRIVATE_KEY_FILE",
        )
    joining = [host.name for host in hosts if host.joins]
    if joining and not TOKEN.fullmatch(join_token or ""):
        yield Fault(
            "join_token",
            "an ill-formed token" if join_token else "no token",
            f"a token of the form abcdef.0123456789abcdef, with which {joining[0]} joins the "
            "cluster",
            "`kubeadm token create | pulumi config set --secret gpu-cluster:kubeadmToken`",
        )
