"""Explanations of why a host can't be reached, and what to do. Pure functions."""

from __future__ import annotations

import os
from dataclasses import dataclass

import asyncssh

from gpu_cluster.ssh.client import Endpoint, OtherHostKey

REFUSED = (asyncssh.HostKeyNotVerifiable, asyncssh.PermissionDenied, asyncssh.KeyImportError)
"""Errors of a host that was reached but not trusted, or that rejects the login."""
PUBLIC_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
"""Default file of a host's public key in OpenSSH (sshd_config(5), HostKey)."""
_KEY_FILES = {
    "ssh-ed25519": PUBLIC_KEY,
    "ssh-rsa": "/etc/ssh/ssh_host_rsa_key.pub",
    "ecdsa-sha2-nistp256": "/etc/ssh/ssh_host_ecdsa_key.pub",
    "ecdsa-sha2-nistp384": "/etc/ssh/ssh_host_ecdsa_key.pub",
    "ecdsa-sha2-nistp521": "/etc/ssh/ssh_host_ecdsa_key.pub",
}


@dataclass(frozen=True)
class Unreached:
    """Explanation of why a host can't be reached.

    Attributes:
        found: What happened.
        wanted: What was expected.
        cure: What to do.
        refused: Whether the host responded, but is not trusted or rejects the login.
    """

    found: str
    wanted: str
    cure: str
    refused: bool = False


def unreached(error: BaseException, to: Endpoint, limit: float) -> Unreached:
    """Explain why a host or bastion can't be reached.

    Args:
        error: Error of the connection.
        to: Address and user of the login.
        limit: Time limit of the connection in seconds.
    """
    refused = isinstance(error, REFUSED)
    if isinstance(error, OtherHostKey):
        return _other_key(error)
    place = f"{to.address}:{to.port}"
    if isinstance(error, asyncssh.PermissionDenied):
        return Unreached(
            f"the host rejected the login of {to.user} at {place} ({error.reason})",
            "a host that accepts the stack's SSH key",
            f"add the key's public half to ~{to.user}/.ssh/authorized_keys there, or correct user "
            "or gpu-cluster:sshPrivateKey",
            refused,
        )
    return Unreached(
        f"{reason(error, limit)} ({place})",
        "a reachable host",
        "start the host or its sshd, correct address and port in the stack file, or allow access "
        f"from here; `ssh -p {to.port} {to.user}@{to.address}` shows whether it works",
        refused,
    )


def reason(error: BaseException, limit: float) -> str:
    """Return the reason of a failed connection in a few words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {limit:.0f} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(abs(error.errno)) if error.errno > 0 else str(error)
    return str(error) or type(error).__name__


def _other_key(error: OtherHostKey) -> Unreached:
    place = f"{error.to.address}:{error.to.port}"
    file = _KEY_FILES.get(error.shown.partition(" ")[0], PUBLIC_KEY)
    return Unreached(
        f"the host at {place} shows another key than the declared one: {error.shown}",
        f"{error.declared}, which is hostKey in the stack file",
        f"run `ssh-keygen -lf {file}` on the host's console; if it prints the key that was shown, "
        "the host was reinstalled: replace hostKey with the content of that file; if not, another "
        "machine responds at that address: do not connect",
        refused=True,
    )
