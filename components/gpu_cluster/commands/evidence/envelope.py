"""Signature of the evidence: a DSSE envelope, signed and verified with an Ed25519 key. Pure.

The library is securesystemslib, which in-toto and TUF use. It reads base64 leniently and skips
signatures of unknown keys, so the envelope's form is checked here first. Source of the format:
secure-systems-lab/dsse, envelope.md and protocol.md.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from pydantic import Field, StringConstraints
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from gpu_cluster.commands.evidence.statement import EvidenceError, Sha256, Strict, parse_json_model
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

PAYLOAD = "application/vnd.in-toto+json"
"""Type of the payload. The signature covers it, so no other document can pass as a statement."""
MAKE_KEY = "openssl genpkey -algorithm ed25519 -out evidence.key"
MAKE_PUBLIC = "openssl pkey -in evidence.key -pubout -out evidence.pub"
KEY_LIMIT = 16 * 1024
"""Maximum number of bytes of a key file."""
MOST_SEPARATORS = 64
"""Maximum number of commas and colons of an envelope; one with eight signatures has 36.

It bounds the memory for a file that nobody has signed: 32 MiB of small values would need 6 GB.
"""


class _Signed(Strict):
    keyid: Sha256
    sig: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Envelope(Strict):
    payload_type: Annotated[str, StringConstraints(max_length=200)]
    payload: str
    signatures: Annotated[tuple[_Signed, ...], Field(max_length=8)]


def signer(pem: bytes) -> CryptoSigner:
    """Return the signer with a private key.

    Args:
        pem: Ed25519 private key in PEM, PKCS#8, without a passphrase.

    Raises:
        EvidenceError: The text is no such key. The message contains nothing of it.
    """
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key("KEY", "private", MAKE_KEY)
    return CryptoSigner(key)


def public_key(pem: bytes) -> SSlibKey:
    """Return a public key in PEM.

    Raises:
        EvidenceError: The text is no Ed25519 public key.
    """
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key("PUBLIC", "public", MAKE_PUBLIC)
    return SSlibKey.from_crypto(key)


def _no_key(place: str, kind: str, command: str) -> EvidenceError:
    wanted = f"an Ed25519 {kind} key in PEM, without a passphrase"
    return EvidenceError(Fault(place, f"no {kind} key", wanted, f"make one with `{command}`"))


def sign(payload: bytes, signer: CryptoSigner) -> str:
    """Return an envelope with a statement's text and its signature, as JSON."""
    envelope = Envelope(payload, PAYLOAD, {})
    envelope.sign(signer)
    return json.dumps(envelope.to_dict(), indent=1) + "\n"


def verified(text: bytes, trusted: SSlibKey) -> bytes:
    """Return an envelope's payload after a check of its signature by the trusted key.

    Args:
        text: The envelope, as JSON.
        trusted: Public key of whoever made the evidence, from another channel than the envelope.

    Raises:
        EvidenceError: The envelope is malformed, or the trusted key did not sign it.
    """
    if (separators := text.count(b",") + text.count(b":")) > MOST_SEPARATORS:
        raise _refused_envelope(
            "content", f"{separators} commas and colons", f"at most {MOST_SEPARATORS}"
        )
    envelope = parse_json_model(_Envelope, text, "envelope")
    if envelope.payload_type != PAYLOAD:
        raise _refused_envelope("payloadType", printable(envelope.payload_type), f"`{PAYLOAD}`")
    payload = _decode_base64(envelope.payload, "payload")
    signatures = {signature.keyid: signature.sig for signature in envelope.signatures}
    if len(signatures) != len(envelope.signatures):
        raise _refused_envelope(
            "signatures", "two signatures of one key", "one signature of each key"
        )
    if not signatures:
        raise _refused_envelope("signatures", "no signature", f"a signature of key {trusted.keyid}")
    if trusted.keyid not in signatures:
        other_keys = ", ".join(f"key {keyid}" for keyid in signatures)
        raise _refused_envelope(
            "signatures", f"only {other_keys}", f"a signature of key {trusted.keyid}"
        )
    own_signature = Signature(trusted.keyid, _decode_base64(signatures[trusted.keyid], "sig").hex())
    try:
        Envelope(payload, PAYLOAD, {own_signature.keyid: own_signature}).verify([trusted], 1)
    except VerificationError:
        raise _refused_envelope(
            "signatures", "a signature that does not fit the content", "the content as signed"
        ) from None
    return payload


def _decode_base64(text: str, place: str) -> bytes:
    """Return decoded base64; there is exactly one text for the same bytes.

    Raises:
        EvidenceError: The text is not standard base64.
    """
    try:
        content = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        content = b""
    if not content or base64.b64encode(content).decode() != text:
        raise _refused_envelope(
            place, "not standard base64", "base64 as RFC 4648, section 4, has it"
        )
    return content


def _refused_envelope(place: str, found: str, wanted: str) -> EvidenceError:
    cure = "do not trust the file: get it again from whoever made it, or name their key in PUBLIC"
    return EvidenceError(Fault(f"envelope {place}", found, wanted, cure))
