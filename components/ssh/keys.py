"""SSH keys: read once, shown by their fingerprint, and as short as they can be."""

from __future__ import annotations

import functools

import asyncssh
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)


@functools.cache
def read_key(private_key: str) -> asyncssh.SSHKey:
    """Return an SSH private key, read once: an RSA key with 4,096 bits takes 0.2 s.

    Raises:
        asyncssh.KeyImportError, ValueError: it can't be used. The error repeats nothing of it.
    """
    return asyncssh.import_private_key(private_key)


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Return a key's type and fingerprint, such as ``ssh-ed25519 SHA256:…``."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def shortest(key: str) -> str:
    """Return the same key in PKCS#8, where that is shorter: for Ed25519 119 characters, not 399.

    The state holds it four times for each host. What isn't OpenSSH's own format, without a
    passphrase, stays as it is: whether it can be used is for the inspection to say. The command
    plugin reads either (golang.org/x/crypto v0.48.0, ssh/keys.go, ParseRawPrivateKey).
    """
    try:
        read = load_ssh_private_key(key.encode(), None)
        other = read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return key
    return min(key, other, key=len)
