"""How the API server and real kubelets know each other; simulated nodes need none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Address of the service ``kubernetes``: the first of the API server's default range
#: (kubernetes v1.34.4, pkg/controlplane/apiserver/options/validation.go, DefaultServiceIPCIDR).
SERVICE = "10.0.0.1"
SERVICE_PORT = 443


def patches(pki: Path) -> list[dict[str, Any]]:
    """Arguments of the API server: the certificate that it shows a kubelet that it asks for logs.

    As kubeadm sets it; kwokctl doesn't, since a simulated node asks nobody who he is.

    Args:
        pki: the cluster's folder of certificates.
    """
    files = {
        "kubelet-client-certificate": pki / "admin.crt",
        "kubelet-client-key": pki / "admin.key",
    }
    added = [{"key": name, "value": str(path)} for name, path in files.items()]
    return [{"name": "kube-apiserver", "extraArgs": added}]
