"""SSH keys: parsing with a cache, fingerprints, and the shortest encoding."""

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

PRIVATE_KEY = "~/.ssh/gpu-cluster"
"""File of the private key that texts name, as in README and tutorial: a key without passphrase."""


@functools.cache
def read_key(private_key: str) -> asyncssh.SSHKey:
    """Return the parsed SSH private key; cached, because an RSA key with 4,096 bits takes 0.2 s.

    Raises:
        asyncssh.KeyImportError, ValueError: The key can't be used. The error contains no part of
            the key.
    """
    return asyncssh.import_private_key(private_key)


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Return a key's type and fingerprint, such as `ssh-ed25519 SHA256:…`."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def shortest(key: str) -> str:
    """Return a private key in PKCS#8 if this format is shorter, which is so for Ed25519 keys.

    An Ed25519 key has 119 characters in PKCS#8 and 399 in OpenSSH's format. The shorter form is
    used because the state holds the key four times for each host. A key with a passphrase, or in
    another format than OpenSSH's, is returned unchanged; the inspection checks whether it can be
    used. The command plugin reads both formats (golang.org/x/crypto v0.48.0, ssh/keys.go,
    ParseRawPrivateKey).
    """
    try:
        read = load_ssh_private_key(key.encode(), None)
        other = read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return key
    return min(key, other, key=len)
