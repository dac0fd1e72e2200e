"""The stack's secrets, set with `pulumi config set --secret gpu-cluster:…`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pulumi

from components.platforms.discovery import every

KEY_FILE = "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Secrets of a stack. `GpuCluster` reports the ones that are missing.

    Attributes:
        private_key: SSH private key. Empty: not configured.
        join_token: kubeadm's bootstrap token. None: not configured.
        registry_credentials: Docker configuration in JSON. None: not configured.
        named: Secrets that fill objects of a platform, by name.
    """

    private_key: str = field(repr=False)
    join_token: str | None = field(repr=False)
    registry_credentials: pulumi.Output[str] | None
    named: Mapping[str, pulumi.Output[str]]


def read_secrets(settings: pulumi.Config) -> Secrets:
    """Read the secrets of a stack.

    Args:
        settings: Configuration of the stack.

    Raises:
        RunError: The key file that the environment variable names can't be read.
    """
    named = {name: settings.get_secret(name) for platform in every() for name in platform.secrets}
    return Secrets(
        private_key=settings.get("sshPrivateKey") or key_of_file(),
        join_token=settings.get("kubeadmToken"),
        registry_credentials=settings.get_secret("registryCredentials"),
        named={name: value for name, value in named.items() if value is not None},
    )


def key_of_file() -> str:
    """Return the SSH key from the file that the environment variable names.

    The result is empty if the variable is not set.
    """
    path = os.environ.get(KEY_FILE)
    if not path:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise pulumi.RunError(
            f"{KEY_FILE}: found {path!r}, which can't be read ({error}); wanted: a file with "
            "an SSH private key; cure: name another, or `pulumi config set --secret "
            "gpu-cluster:sshPrivateKey`"
        ) from None
