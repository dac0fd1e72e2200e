"""Configurations that kubeadm reads, as JSON, which is YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping

from components.hosts.settings.host import Host
from components.hosts.settings.kubernetes_packages import Join
from components.hosts.settings.runtime import Engine

SOCKETS: Mapping[Engine, str] = {
    Engine.CONTAINERD: "unix:///var/run/containerd/containerd.sock",
    Engine.DOCKER: "unix:///var/run/cri-dockerd.sock",
    Engine.CRI_O: "unix:///var/run/crio/crio.sock",
}
"""kubernetes v1.34 cmd/kubeadm/app/constants/constants_unix.go. Always named: kubeadm refuses to
choose where it finds two, and Docker brings containerd's with it (app/util/runtime/runtime.go)."""


def join_configuration(version: str, join: Join, host: Host, token: str, engine: Engine) -> str:
    """A JoinConfiguration: a secret, for the token is in it."""
    registration = {"name": host.node}
    if engine in SOCKETS:
        registration["criSocket"] = SOCKETS[engine]
    document = {
        "apiVersion": f"kubeadm.k8s.io/{_api(version)}",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": token,
                "apiServerEndpoint": join.endpoint,
                "caCertHashes": list(join.ca_cert_hashes),
            }
        },
        "nodeRegistration": registration,
    }
    return json.dumps(document, indent=1) + "\n"


def _api(version: str) -> str:
    """v1beta4 since Kubernetes 1.31 (kubeadm reference)."""
    return "v1beta4" if int(version.split(".")[1]) >= 31 else "v1beta3"
