"""Settings of a new cluster: `kubeadm init` on one host, its network add-on, and `kubeadm join`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpu_cluster.base.address import Address
from gpu_cluster.base.image import Image
from gpu_cluster.base.model import Model
from gpu_cluster.base.names import DnsLabel
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import ExtraValues, frozen, plain
from gpu_rules.faults import refuse, show

DNS = frozenset({"addon", "addon/all", "addon/coredns"})
"""Phases of `kubeadm init` that create CoreDNS."""
ENDPOINT = r"(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):\d{1,5}"
Endpoint = Annotated[
    StrictStr, AfterValidator(pattern(ENDPOINT, "host:port of the API server", "192.0.2.1:6443"))
]
_SUBNET = r"[0-9a-fA-F.:]+/\d{1,3}(,[0-9a-fA-F.:]+/\d{1,3})?"
Subnet = Annotated[
    StrictStr, AfterValidator(pattern(_SUBNET, "an address range, or two", "10.244.0.0/16"))
]
Interface = Annotated[
    StrictStr, AfterValidator(pattern(r"[A-Za-z0-9_.-]{1,15}", "a network interface", "eno1"))
]
Phase = Annotated[
    StrictStr, AfterValidator(pattern(r"[a-z0-9/-]+", "a phase of kubeadm init", "addon/coredns"))
]


def _refuse_keys(*ours: str) -> AfterValidator:
    """Return a validator that rejects kubeadm keys for which the stack file has a setting."""

    def check(value: dict[str, Any]) -> Any:
        for key in ours:
            if key in value:
                raise refuse(
                    show(key), "only keys for which this program has no setting", f"take {key} out"
                )
        return frozen(value)

    return AfterValidator(check)


class NetworkChart(Model):
    """A network add-on as a Helm chart; `charts.digests` and `charts.directory` apply to it."""

    chart: DnsLabel = Field(description="the chart's name", examples=["cilium"])
    version: StrictStr = Field(min_length=1, description="the chart's version", examples=["1.18.4"])
    repository: StrictStr = Field(
        min_length=1,
        description="the chart repository's address",
        examples=["https://charts.example.org"],
    )
    namespace: DnsLabel = Field(
        default="kube-system", description="a namespace's name", examples=["kube-system"]
    )
    values: ExtraValues = Field(
        default={},
        description="a mapping with the chart's values",
        examples=["{kubeProxyReplacement: true}"],
    )


class Network(Model):
    """The network add-on (CNI): a file of manifests in the project, or a Helm chart."""

    manifest: StrictStr | None = Field(
        default=None,
        min_length=1,
        description="the path of a file with manifests",
        examples=["network/cni.yaml"],
    )
    chart: NetworkChart | None = Field(
        default=None, description="a mapping with chart, version and repository"
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Network:
        if (self.manifest is None) == (self.chart is None):
            raise refuse(
                "both manifest and chart" if self.chart else "neither manifest nor chart",
                "one of the two",
                "declare one of the two",
            )
        return self


class KubeVip(Model):
    """kube-vip on the control-plane hosts: one of them holds the endpoint's address at a time.

    It is a static pod, which announces the address by ARP (by NDP, if it is an IPv6 address).
    """

    image: Image = Field(
        default="ghcr.io/kube-vip/kube-vip:v1.2.2",
        description="an image of kube-vip, with tag or digest",
        examples=["registry.example.com/kube-vip/kube-vip:v1.2.2"],
    )
    interface: Interface | None = Field(
        default=None,
        description="the network interface that gets the address; that of the default route "
        "without it",
        examples=["eno1"],
    )


class Init(Model):
    """Settings of `kubeadm init` on the stack's first control-plane host; all other hosts join it.

    The program never changes the configuration of an initialized cluster: a different configuration
    is rejected.
    """

    endpoint: Endpoint = Field(
        description="host:port of the API server, for nodes and for you; three control-plane hosts "
        "need a load balancer's, or an unused address for kubeVip",
        examples=["192.0.2.1:6443"],
    )
    advertise_address: Address | None = Field(
        default=None,
        description="the address of the host that others reach; of its default route without it",
        examples=["192.0.2.1"],
    )
    kube_vip: KubeVip | None = Field(
        default=None,
        description="a mapping, also an empty one: kube-vip holds the endpoint's address",
        examples=["{interface: eno1}"],
    )
    network: Network = Field(
        description="a mapping with manifest or chart: the network add-on",
        examples=["{manifest: network/cni.yaml}"],
    )
    pod_subnet: Subnet = Field(
        default="10.244.0.0/16",
        description="an address range for pods, or two of them",
        examples=["10.244.0.0/16"],
    )
    service_subnet: Subnet = Field(
        default="10.96.0.0/12",
        description="an address range for Services, or two of them",
        examples=["10.96.0.0/12"],
    )
    skip_phases: tuple[Phase, ...] = Field(
        default=(),
        description="a list of phases of kubeadm init that are left out",
        examples=["[addon/kube-proxy]"],
    )
    cluster_configuration: Annotated[
        dict[str, Any],
        _refuse_keys(
            "apiVersion", "kind", "kubernetesVersion", "controlPlaneEndpoint", "networking"
        ),
    ] = Field(
        default={},
        description="a mapping: more of kubeadm's ClusterConfiguration",
        examples=["{imageRepository: registry.example.com/k8s}"],
    )
    kubelet_configuration: Annotated[
        dict[str, Any], _refuse_keys("apiVersion", "kind", "cgroupDriver")
    ] = Field(
        default={},
        description="a mapping: more of the KubeletConfiguration of all nodes",
        examples=["{maxPods: 200}"],
    )
    node_registration: Annotated[dict[str, Any], _refuse_keys("name", "criSocket", "taints")] = (
        Field(
            default={},
            description="a mapping: more of kubeadm's nodeRegistration, on all nodes",
            examples=["{kubeletExtraArgs: [{name: node-ip, value: 192.0.2.11}]}"],
        )
    )
    timeout_seconds: StrictInt = Field(
        default=600,
        ge=60,
        le=3600,
        description="a whole number from 60 to 3600, seconds",
        examples=[600],
    )
    snapshots: StrictInt = Field(
        default=3,
        ge=1,
        le=50,
        description="a whole number from 1 to 50: snapshots of etcd that a host keeps",
        examples=[3],
    )
    protect: StrictBool = Field(
        default=True,
        description="true or false: false is your consent that destroying the stack deletes etcd",
        examples=["true"],
    )

    @property
    def endpoint_address(self) -> str:
        """Return the endpoint's host name or address, without brackets."""
        return self.endpoint.rpartition(":")[0].strip("[]")

    @property
    def has_ipv6(self) -> bool:
        """Return whether pods or Services of the cluster have IPv6 addresses."""
        return ":" in self.pod_subnet + self.service_subnet

    @property
    def has_dns(self) -> bool:
        """Return whether the cluster gets CoreDNS."""
        dns = plain(self.cluster_configuration).get("dns")
        disabled = isinstance(dns, dict) and dns.get("disabled")
        return not disabled and DNS.isdisjoint(self.skip_phases)
