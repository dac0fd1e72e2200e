"""A stack, evidence of its validation, and keys, for tests of forgeries."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey

from gpu_cluster.commands.evidence.__main__ import envelope
from gpu_cluster.commands.evidence.check import Declared, require_holds
from gpu_cluster.commands.evidence.statement import read
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.nodes.record import SETTINGS
from tests.fixtures.clusters import cluster

Json = dict[str, Any]

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
FILE = "Pulumi.test.yaml"
TEST = {
    **{"image": "registry.example.com/nccl:1", "command": ["all-reduce"], "gpus": 8},
    **{"pattern": "bandwidth: {figure}", "minimum": 250.0},
}


def key(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def pem(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


OURS, THEIRS = key(1), key(2)
"""The key of whoever validates, and the key of a forger."""


def write_keys(folder: Path) -> None:
    """Write `evidence.key` and `evidence.pub`, as openssl writes a key pair."""
    private = OURS.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "evidence.key").write_bytes(private)
    (folder / "evidence.pub").write_bytes(pem(OURS))


def declared(text: bytes = b"stack file", **changes: Any) -> Declared:
    settings = cluster(hosts=[], **changes)
    return Declared(
        stack="test",
        file=FILE,
        sha256=hashlib.sha256(text).hexdigest(),
        validation=resolve(settings, "test").validation,
    )


def uuid(node: int, gpu: int) -> str:
    return f"GPU-{node:08d}-0000-0000-0000-{gpu:012d}"


def content(about: Declared) -> Json:
    """Return the statement about a stack all of whose GPUs ran a kernel."""
    (pool,) = about.validation.pools
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": about.file, "digest": {"sha256": about.sha256}}],
        "predicateType": "urn:gpu-cluster:validation-evidence:v1",
        "predicate": {
            "stack": about.stack,
            "made": "2026-11-20T00:00:00Z",
            "until": "2026-12-20T00:00:00Z",
            "inspected": "all",
            "versions": {"kubernetes": "v1.36.3"},
            "nodes": [
                {
                    "name": name,
                    "pool": pool.pool,
                    "declared": 8,
                    "computed": 8,
                    "simulated": 0,
                    "deferred": 0,
                    "since": "2026-11-19T00:00:00Z",
                    "devices": {uuid(number, gpu): [] for gpu in range(8)},
                    "facts": {
                        "driver": "580.159.03",
                        **{SETTINGS + key: value for key, value in pool.settings.items()},
                    },
                }
                for number, name in enumerate(pool.nodes or ())
            ],
            "figures": [],
        },
    }


def signed(
    statement: Json | bytes,
    private: Ed25519PrivateKey = OURS,
    payload_type: str = envelope.PAYLOAD,
) -> Json:
    """Return an envelope around a statement, signed with a key."""
    text = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    made = Envelope(text, payload_type, {})
    made.sign(CryptoSigner(private))
    return made.to_dict()


def keyid(private: Ed25519PrivateKey) -> str:
    return SSlibKey.from_crypto(private.public_key()).keyid


def raw(statement: Json) -> Json:
    """Return an envelope whose signature covers only the payload, without its type."""
    made = signed(statement)
    text = json.dumps(statement).encode()
    made["signatures"][0]["sig"] = b64encode(OURS.sign(text)).decode()
    return made


def check(made: Json | bytes, about: Declared, now: datetime = NOW) -> None:
    """Check evidence as `gpu-cluster verify-evidence` does.

    Raises:
        EvidenceError: The evidence does not hold.
    """
    text = made if isinstance(made, bytes) else json.dumps(made).encode()
    found = read(envelope.verified(text, envelope.public_key(pem(OURS))))
    require_holds(found, about, now)


def changed(about: Declared, change: Callable[[Json], None]) -> Json:
    """Return the statement of evidence after a change of its predicate."""
    found = content(about)
    change(found["predicate"])
    return found


def of_another_file(about: Declared) -> Declared:
    return replace(about, sha256=hashlib.sha256(b"edited").hexdigest())
