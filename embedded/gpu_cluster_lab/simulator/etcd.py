"""Configure TLS with client certificates for etcd.

By default kwokctl starts etcd without authentication, open to every user of the machine. A client
that can write to etcd can store objects that bypass the API server's checks, such as a Helm release
record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def patches(options: Mapping[str, Any], pki: Path) -> list[dict[str, Any]]:
    """Return patches of kwokctl's configuration for etcd and for the API server, etcd's client.

    Args:
        options: Options of kwokctl's configuration, with `etcdPort` and `etcdPeerPort`.
        pki: The cluster's folder of certificates. One certificate for 127.0.0.1 is used both as
            server and as client certificate (kwok 0.8.0, pkg/kwokctl/pki).
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
        {
            "name": "etcd",
            "extraArgs": _extra_arguments(replaced, override=True) + _extra_arguments(added),
        },
        {
            "name": "kube-apiserver",
            "extraArgs": _extra_arguments({"etcd-servers": client}, override=True)
            + _extra_arguments(logging_in),
        },
    ]


def _extra_arguments(values: Mapping[str, Any], *, override: bool = False) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": str(value), "override": override} for name, value in values.items()
    ]
