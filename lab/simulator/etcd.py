"""etcd by TLS with client certificates: kwokctl starts it open to every user of the machine.

Whoever may write to etcd writes objects that no API server checked, such as a Helm record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def patches(options: Mapping[str, Any], pki: Path) -> list[dict[str, Any]]:
    """Patches of kwokctl's configuration, for etcd and for the API server that dials it.

    Args:
        options: of that configuration, with ``etcdPort`` and ``etcdPeerPort``.
        pki: the cluster's folder of certificates. Its one certificate serves and logs in, for
            127.0.0.1 (kwok 0.8.0, pkg/kwokctl/pki).
    """
    client = f"https://127.0.0.1:{options['etcdPort']}"
    peer = f"https://127.0.0.1:{options['etcdPeerPort']}"
    authority, certificate, key = (pki / name for name in ("ca.crt", "admin.crt", "admin.key"))
    replaced = {
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"node0={peer}",
    }
    added = {
        f"{kind}{name}": value
        for kind in ("", "peer-")
        for name, value in (
            ("cert-file", certificate),
            ("key-file", key),
            ("trusted-ca-file", authority),
            ("client-cert-auth", "true"),
        )
    }
    logging_in = {"etcd-cafile": authority, "etcd-certfile": certificate, "etcd-keyfile": key}
    return [
        {"name": "etcd", "extraArgs": _arguments(replaced, override=True) + _arguments(added)},
        {
            "name": "kube-apiserver",
            "extraArgs": _arguments({"etcd-servers": client}, override=True)
            + _arguments(logging_in),
        },
    ]


def _arguments(values: Mapping[str, Any], *, override: bool = False) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": str(value), "override": override} for name, value in values.items()
    ]
