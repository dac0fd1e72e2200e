"""Network add-on of the test site, for the setting `kubernetesPackages.init.network`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from lab.real.bare.image_registry import NETWORK

PLUGIN = Path(__file__).parent.parent / "cni.sh"
POD_GATEWAY = "198.18.1.1"
"""Gateway of the pods' network (`cni.sh`)."""
_NAME = "site-network"


def manifests(registry: str, service: str, endpoint: str) -> str:
    """Return manifests of a DaemonSet that installs a CNI plugin on each node.

    The DaemonSet also makes the API server reachable at the address of the service `kubernetes`.

    Args:
        registry: Host and port of the image registry.
        service: First address of the service subnet.
        endpoint: Host and port of the API server.
    """
    labels = {"app": _NAME}
    meta = {"name": _NAME, "namespace": "kube-system"}
    container = {
        "name": "network",
        "image": f"{registry}/{NETWORK}",
        "command": ["/usr/bin/probe", "network", f"{service}:443", endpoint, POD_GATEWAY],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "node", "mountPath": "/node"},
            {"name": "plugins", "mountPath": "/plugins"},
        ],
    }
    spec = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": "node", "hostPath": {"path": "/"}},
            {"name": "plugins", "configMap": {"name": _NAME}},
        ],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    configuration = {"cniVersion": "1.0.0", "name": "real", "type": "real"}
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": meta,
                "data": {"plugin": PLUGIN.read_text(), "configuration": json.dumps(configuration)},
            },
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": meta,
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
        ]
    )
