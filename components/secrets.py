"""The stack's secrets: what `pulumi config set --secret gpu-cluster:…` holds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pulumi

from components.desired.host import DesiredHost
from components.platforms.base import Platform
from components.ssh.keys import shortest

KEY_FILE = "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"
TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
"""kubeadm's bootstrap token (Kubernetes reference, "Bootstrap tokens")."""


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What a stack has of them.

    Attributes:
        private_key: an SSH private key; empty where there are no hosts.
        join_token: kubeadm's bootstrap token; None: none is given.
        registry_credentials: a Docker configuration in JSON; None: none is given.
        named: those that objects of the platform are filled from, by name.
        missing: what a person should do about those of them that the stack lacks.
    """

    private_key: str = field(repr=False)
    join_token: str | None = field(repr=False)
    registry_credentials: pulumi.Output[str] | None
    named: Mapping[str, pulumi.Output[str]]
    missing: tuple[str, ...]


def read_secrets(
    settings: pulumi.Config, hosts: Sequence[DesiredHost], platform: Platform
) -> Secrets:
    """Read the secrets that a stack needs.

    Args:
        settings: the stack's configuration.
        hosts: the hosts of the stack.
        platform: the platform.

    Raises:
        RunError: a secret is missing or can't be what it should be.
    """
    parts = [part for part in platform.parts() if part.secret]
    named = {part.secret: settings.get_secret(part.secret) for part in parts}
    return Secrets(
        private_key=_private_key(settings, len(hosts)),
        join_token=_join_token(settings, [host.name for host in hosts if host.joins]),
        registry_credentials=settings.get_secret("registryCredentials"),
        named={name: value for name, value in named.items() if value is not None},
        missing=tuple(part.without for part in parts if part.without and not named[part.secret]),
    )


def _private_key(settings: pulumi.Config, hosts: int) -> str:
    """The SSH key: the stack's secret, else the file that the environment names."""
    key = settings.get("sshPrivateKey")
    if not key and (path := os.environ.get(KEY_FILE)):
        try:
            key = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise pulumi.RunError(
                f"{KEY_FILE}: found {path!r}, which can't be read ({error}); wanted: a file with "
                "an SSH private key; cure: name another, or `pulumi config set --secret "
                "gpu-cluster:sshPrivateKey`"
            ) from None
    if not key and hosts:
        raise pulumi.RunError(
            f"gpu-cluster:sshPrivateKey: found neither this secret nor {KEY_FILE}; wanted: the key "
            f"that logs in to {hosts} hosts; cure: `pulumi config set --secret "
            "gpu-cluster:sshPrivateKey < ~/.ssh/id_ed25519`"
        )
    if not key:
        return ""
    return shortest(key)


def _join_token(settings: pulumi.Config, joining: Sequence[str]) -> str | None:
    """kubeadm's bootstrap token: the stack's secret, where hosts join."""
    token = settings.get("kubeadmToken")
    if joining and not TOKEN.fullmatch(token or ""):
        raise pulumi.RunError(
            f"gpu-cluster:kubeadmToken: found {'no' if not token else 'an ill-formed'} token; "
            f"wanted: abcdef.0123456789abcdef, with which {joining[0]} joins; cure: `kubeadm token "
            "create | pulumi config set --secret gpu-cluster:kubeadmToken`"
        )
    return token
