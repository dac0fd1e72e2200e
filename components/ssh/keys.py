"""The SSH private key, as short as it can be: the state holds it four times for each host."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)


def shortest(key: str) -> str:
    """The same key in PKCS#8, where that is shorter: 119 characters in place of 399 for Ed25519.

    What isn't OpenSSH's own format, without a passphrase, stays as it is: whether it can be used is
    for the inspection to say. The command plugin reads either (golang.org/x/crypto v0.48.0,
    ssh/keys.go, ParseRawPrivateKey).
    """
    try:
        read = load_ssh_private_key(key.encode(), None)
        other = read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return key
    return min(key, other, key=len)
