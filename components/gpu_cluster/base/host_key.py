"""SSH host keys in the format of a `.pub` file: `ssh-ed25519 AAAA…`.

Formats: RFC 4253 section 6.6 (RSA), RFC 5656 section 3.1 (ECDSA), RFC 8709 section 4 (Ed25519).
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_rules.faults import PartError, refuse, show

_WANTED = "a public host key: ssh-ed25519, ecdsa-sha2-nistp256/384/521 or ssh-rsa, and its base64"


def taken_from(host: str) -> str:
    """Return the cure of a key that is missing or wrong; `host` is the machine in words."""
    return (
        f"take it from /etc/ssh/ssh_host_ed25519_key.pub on {host}, or by `ssh-keyscan -t ed25519`"
        " and compare the fingerprint with the host's"
    )


_CURE = taken_from("the host")
_CURVES = {"nistp256": 65, "nistp384": 97, "nistp521": 133}
_TYPES = ("ssh-ed25519", "ssh-rsa", *(f"ecdsa-sha2-{curve}" for curve in _CURVES))
_RSA_BITS = 2048


def check_host_key(text: str) -> str:
    """Return the key as `type base64`, without its comment.

    Raises:
        PydanticCustomError: The text is no public key of one of the supported types.
    """
    if "PRIVATE KEY" in text:
        raise refuse(
            show(text),
            _WANTED,
            "write the public half, and create a new key: this one is no longer secret",
        )
    words = text.split()
    if len(words) >= 3 and words[1] in _TYPES:
        raise refuse(show(text), _WANTED, "leave out the host name before the key type")
    if len(words) < 2 or words[0] not in _TYPES:
        raise refuse(show(text), _WANTED, _CURE)
    kind, encoded = words[0], words[1]
    try:
        blob = base64.b64decode(encoded, validate=True)
        fields = _split_fields(blob)
    except (binascii.Error, ValueError):
        raise refuse(show(text), f"the whole base64 of a key of type {kind}", _CURE) from None
    if fault := _describe_fault(kind, fields):
        raise refuse(show(text), fault, _CURE)
    return f"{kind} {encoded}"


def _split_fields(blob: bytes) -> list[bytes]:
    fields: list[bytes] = []
    position = 0
    while position < len(blob):
        if position + 4 > len(blob):
            raise PartError("a key that ends within a number")
        (length,) = struct.unpack_from(">I", blob, position)
        position += 4
        if position + length > len(blob):
            raise PartError("a key that is cut off")
        fields.append(blob[position : position + length])
        position += length
    return fields


def _describe_fault(kind: str, fields: list[bytes]) -> str | None:
    """Return a description of the expected key if the key is invalid, else None."""
    if not fields or fields[0] != kind.encode():
        return f"a key whose base64 content has the same type, {kind}"
    if kind == "ssh-ed25519":
        good = len(fields) == 2 and len(fields[1]) == 32
        return None if good else "an Ed25519 key of 32 bytes"
    if kind == "ssh-rsa":
        bits = int.from_bytes(fields[2], "big").bit_length() if len(fields) == 3 else 0
        return None if bits >= _RSA_BITS else f"an RSA key of at least {_RSA_BITS} bits"
    curve = kind.removeprefix("ecdsa-sha2-")
    good = (
        len(fields) == 3
        and fields[1] == curve.encode()
        and len(fields[2]) == _CURVES[curve]
        and fields[2][0] == 4
    )
    return None if good else f"an uncompressed point of curve {curve}"


HostKey = Annotated[StrictStr, AfterValidator(check_host_key)]
