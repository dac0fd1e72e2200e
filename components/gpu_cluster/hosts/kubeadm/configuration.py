"""Configuration files for kubeadm, written as JSON, which is valid YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_cluster.charts.extra_values import plain
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.kubeadm_init import Init, KubeVip
from gpu_cluster.settings.hosts.kubernetes_packages import Join
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings

SOCKETS: Mapping[Engine, str] = {
    Engine.CONTAINERD: "unix:///var/run/containerd/containerd.sock",
    Engine.DOCKER: "unix:///var/run/cri-dockerd.sock",
    Engine.CRI_O: "unix:///var/run/crio/crio.sock",
}
"""Sockets of the container engines.

Source: kubernetes v1.34 cmd/kubeadm/app/constants/constants_unix.go. The socket is always set,
because kubeadm refuses to choose between two, and Docker installs containerd's socket, too
(app/util/runtime/runtime.go).
"""
PLACE = "@TOKEN@"
"""Placeholder in an InitConfiguration that the host replaces by the token that it creates."""
KEY = "@KEY@"
"""Placeholder for the certificate key that the host creates."""
KUBECONFIG = "@KUBECONFIG@"
"""Placeholder in the manifest of kube-vip for the host's kubeconfig that it uses."""
APPLIED = "@APPLIED@"
"""Placeholder in the manifest of kube-vip for the text's SHA-256."""
VIP_LEASE = {"vip_leaseduration": "5", "vip_renewdeadline": "3", "vip_retryperiod": "1"}
"""Seconds after which another host takes kube-vip's address.

Source: kube-vip's documentation, "Static Pods", example for ARP.
"""
LIFE = "24h0m0s"
"""Lifetime of a new cluster's token: kubeadm's default.

Source: kubernetes v1.34 cmd/kubeadm/app/constants/constants.go, DefaultTokenDuration.
"""
LENT_LIFE = "0h15m0s"
"""Lifetime of the token with which a control plane joins."""


def join_configuration(
    version: str,
    join: Join,
    host: DesiredHost,
    token: str,
    engine: Engine,
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return a JoinConfiguration, which is a secret because it contains the token.

    Args:
        version: Version of Kubernetes.
        join: The cluster to join.
        host: The host that joins.
        token: Bootstrap token.
        engine: The host's container engine.
        more: Additional fields of `nodeRegistration`.
    """
    return json.dumps(_join_document(version, join, host, token, engine, more), indent=1) + "\n"


def member_configuration(
    version: str, init: Init, host: DesiredHost, token: str, hashes: tuple[str, ...], key: str
) -> str:
    """Return the JoinConfiguration of a control plane, which is a secret.

    Args:
        version: Version of Kubernetes.
        init: Declared settings of the cluster.
        host: The host that joins the control plane.
        token: Bootstrap token.
        hashes: Hashes of the cluster's authority, each `sha256:…`.
        key: Key with which the cluster's certificates are encrypted.
    """
    join = Join(endpoint=init.endpoint, ca_cert_hashes=hashes)
    engine, more = host.sections.runtime.engine, init.node_registration
    document = _join_document(version, join, host, token, engine, more)
    if host.role is Role.GPU_CONTROL_PLANE:
        document["nodeRegistration"]["taints"] = []
    document["controlPlane"] = {
        "localAPIEndpoint": {"bindPort": _port(init)},
        "certificateKey": key,
    }
    return json.dumps(document, indent=1) + "\n"


def _join_document(
    version: str,
    join: Join,
    host: DesiredHost,
    token: str,
    engine: Engine,
    more: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeadm.k8s.io/{_configuration_api(version)}",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": token,
                "apiServerEndpoint": join.endpoint,
                "caCertHashes": list(join.ca_cert_hashes),
            }
        },
        "nodeRegistration": {**plain(more or {}), **_node_registration(host, engine)},
    }


def init_configuration(
    version: str, init: Init, host: DesiredHost, runtime: RuntimeSettings
) -> str:
    """Return the configuration for `kubeadm init` as YAML documents.

    The documents contain no secret: the placeholder `PLACE` stands for the bootstrap token. Source:
    kubernetes v1.34 cmd/kubeadm/app/apis/kubeadm/v1beta4/types.go.

    Args:
        version: Version of Kubernetes.
        init: Declared settings of the cluster.
        host: The control-plane host.
        runtime: Settings of the host's container engine.
    """
    local: dict[str, Any] = {"bindPort": _port(init)}
    if init.advertise_address:
        local |= {"advertiseAddress": init.advertise_address}
    registration = {**plain(init.node_registration), **_node_registration(host, runtime.engine)}
    if host.role is Role.GPU_CONTROL_PLANE:
        registration["taints"] = []
    initialize = {
        **_init_configuration(version),
        "localAPIEndpoint": local,
        "nodeRegistration": registration,
        "skipPhases": list(init.skip_phases),
    }
    subnets = {"podSubnet": init.pod_subnet, "serviceSubnet": init.service_subnet}
    cluster = {
        **plain(init.cluster_configuration),
        **_cluster_configuration(version),
        "controlPlaneEndpoint": init.endpoint,
        "networking": subnets,
    }
    kubelet = {
        **plain(init.kubelet_configuration),
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd" if runtime.systemd_cgroup else "cgroupfs",
    }
    return _join_documents(initialize, cluster, kubelet)


def token_configuration(version: str) -> str:
    """Return the configuration for `kubeadm token create`.

    The configuration contains the Kubernetes version, because kubeadm otherwise looks it up on the
    internet (kubernetes v1.34 cmd/kubeadm/app/util/version.go).
    """
    return _join_documents(_init_configuration(version), _cluster_configuration(version))


def lent_configuration(version: str, init: Init, host: DesiredHost) -> str:
    """Return the configuration for a short-lived token and `kubeadm init phase upload-certs`.

    Args:
        version: Version of Kubernetes.
        init: Declared settings of the cluster, which may name another folder of certificates.
        host: The control-plane host that runs kubeadm.
    """
    initialize = {
        **_init_configuration(version, LENT_LIFE),
        "certificateKey": KEY,
        "nodeRegistration": _node_registration(host, host.sections.runtime.engine),
    }
    cluster = {**plain(init.cluster_configuration), **_cluster_configuration(version)}
    return _join_documents(initialize, cluster)


def etcd_settings(init: Init) -> dict[str, str]:
    """Return the settings of `library/etcd.sh`: the cluster's own paths, and kept snapshots."""
    cluster = plain(init.cluster_configuration)
    local = (cluster.get("etcd") or {}).get("local") or {}
    return {
        "GC_CERTIFICATES": str(cluster.get("certificatesDir", "")),
        "GC_ETCD_DATA": str(local.get("dataDir", "")),
        "GC_SNAPSHOTS": str(init.snapshots),
    }


def kube_vip_settings(init: Init) -> dict[str, str]:
    """Return the settings of `library/kube_vip.sh`; empty if the stack declares no kube-vip."""
    if init.kube_vip is None:
        return {}
    return {
        "GC_KUBE_VIP": _kube_vip_manifest(init, init.kube_vip),
        "GC_KUBE_VIP_ADDRESS": init.endpoint_address,
    }


def _kube_vip_manifest(init: Init, kube_vip: KubeVip) -> str:
    """Return the static pod of kube-vip, in JSON.

    Source: kube-vip v1.2.2 pkg/kubevip/config_generator.go, generatePodSpec. Two values differ from
    what kube-vip generates: it gets the host's own API server as its address, because it would
    otherwise ask the address that it has yet to hold (pkg/manager/manager.go, New), and it serves
    no metrics on all of the host's addresses.
    """
    port = _port(init)
    environment = {
        "vip_arp": "true",
        "cp_enable": "true",
        "cp_namespace": "kube-system",
        "address": init.endpoint_address,
        "port": str(port),
        "kubernetes_addr": f"https://kubernetes:{port}",
        "vip_leaderelection": "true",
        **VIP_LEASE,
        **({"vip_interface": kube_vip.interface} if kube_vip.interface else {}),
    }
    node = {"name": "vip_nodename", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container = {
        "name": "kube-vip",
        "image": kube_vip.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["manager", "--prometheusHTTPServer="],
        "env": [node, *({"name": name, "value": text} for name, text in environment.items())],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "kubeconfig", "mountPath": "/etc/kubernetes/admin.conf", "readOnly": True}
        ],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "kube-vip",
            "namespace": "kube-system",
            "annotations": {"gpu-cluster/applied": APPLIED},
        },
        "spec": {
            "hostNetwork": True,
            # An API server's certificate has this name (kubeadm's phases/certs).
            "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["kubernetes"]}],
            "priorityClassName": "system-node-critical",
            "containers": [container],
            # The kubelet starts the pod once kubeadm has written the file.
            "volumes": [{"name": "kubeconfig", "hostPath": {"path": KUBECONFIG, "type": "File"}}],
        },
    }
    return json.dumps(pod, indent=1)


def _port(init: Init) -> int:
    return int(init.endpoint.rpartition(":")[2])


def _init_configuration(version: str, life: str = LIFE) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeadm.k8s.io/{_configuration_api(version)}",
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": PLACE, "ttl": life}],
    }


def _cluster_configuration(version: str) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeadm.k8s.io/{_configuration_api(version)}",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": f"v{version}",
    }


def _join_documents(*documents: dict[str, Any]) -> str:
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n"


def _node_registration(host: DesiredHost, engine: Engine) -> dict[str, Any]:
    registration: dict[str, Any] = {"name": host.node}
    if engine in SOCKETS:
        registration["criSocket"] = SOCKETS[engine]
    return registration


def _configuration_api(version: str) -> str:
    """Return the API version of kubeadm's configuration: v1beta4 since Kubernetes 1.31.

    Source: kubeadm reference.
    """
    return "v1beta4" if int(version.split(".")[1]) >= 31 else "v1beta3"
