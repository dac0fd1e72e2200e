"""Connection settings between the API server and kubelets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Cluster IP of the service `kubernetes`: the first address of the API server's default range
#: (kubernetes v1.34.4, pkg/controlplane/apiserver/options/validation.go, DefaultServiceIPCIDR).
SERVICE = "10.0.0.1"
SERVICE_PORT = 443


def patches(pki: Path) -> list[dict[str, Any]]:
    """Return API server flags with the client certificate for requests to kubelets, such as logs.

    kubeadm sets these flags; kwokctl doesn't, because kwok's server authenticates no clients.

    Args:
        pki: The cluster's folder of certificates.
    """
    files = {
        "kubelet-client-certificate": pki / "admin.crt",
        "kubelet-client-key": pki / "admin.key",
    }
    added = [{"key": name, "value": str(path)} for name, path in files.items()]
    return [{"name": "kube-apiserver", "extraArgs": added}]
