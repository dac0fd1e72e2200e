"""Kubeconfig of an embedded cluster, with one context and embedded certificates."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from gpu_cluster_lab.simulator.api import Access


def text(access: Access, context: str) -> str:
    """Return the text of the kubeconfig; `context` also names its cluster and its user."""
    cluster = {"server": access.server, "certificate-authority-data": _encode_file(access.ca)}
    user = {
        "client-certificate-data": _encode_file(access.certificate),
        "client-key-data": _encode_file(access.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _encode_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
