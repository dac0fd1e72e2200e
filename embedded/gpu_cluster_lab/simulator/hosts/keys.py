"""SSH keys of simulated hosts.

A stack file pins each host's key, so a simulated host must have the same key on every machine: its
ed25519 host key is derived from `SEED` and the host's name. Anybody can derive the key, so these
servers listen on loopback only (`gpu_cluster_lab.simulator.hosts.model.check_loopback`). The
client's key is random and stays in the cache.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gpu_cluster_lab.simulator.hosts.model import cluster_dir

SEED = "gpu-cluster simulated host key, public by design, v1"


def _derive_host_key(host_name: str) -> Ed25519PrivateKey:
    seed = hashlib.sha256(f"{SEED}\0{host_name}".encode()).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def _public_text(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _private_text(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def host_public_key(host_name: str) -> str:
    """Return the public host key of the simulated host `host_name`, as a stack file pins it."""
    return _public_text(_derive_host_key(host_name))


def host_private_key(host_name: str) -> str:
    """Return the private host key in OpenSSH's format, public by design: anybody can derive it."""
    return _private_text(_derive_host_key(host_name))


def client_key(name: str) -> tuple[Path, str]:
    """Return the SSH client key that logs in to the simulated hosts of cluster `name`.

    The key is generated at the first call and stored in `id_ed25519` (mode 0600) of the cluster's
    folder in the cache.

    Returns:
        The path of the private key, and the text of the public key.
    """
    path = cluster_dir(name) / "id_ed25519"
    public = path.with_suffix(".pub")
    if not (path.exists() and public.exists()):
        path.parent.mkdir(parents=True, exist_ok=True)
        key = Ed25519PrivateKey.generate()
        _write_key(public, _public_text(key) + "\n", 0o644)
        _write_key(path, _private_text(key), 0o600)
    return path, public.read_text().strip()


def _write_key(path: Path, text: str, mode: int) -> None:
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    draft.replace(path)
