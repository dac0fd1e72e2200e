"""Section `kubernetesPackages` of the stack file: kubelet, kubeadm and kubectl on hosts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import plain
from gpu_cluster.settings.hosts.kubeadm_init import Endpoint, Init
from gpu_cluster.settings.hosts.kubelet_gates import removed
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_rules.faults import refuse

FIRST = 31
"""Lowest minor version of Kubernetes that `init` supports: 31 stands for Kubernetes 1.31."""


class Join(Model):
    """Settings of `kubeadm join`; its token is the stack's secret `gpu-cluster:kubeadmToken`."""

    endpoint: Endpoint = Field(
        description="host:port of the API server", examples=["192.0.2.1:6443"]
    )
    ca_cert_hashes: tuple[
        Annotated[
            StrictStr,
            AfterValidator(pattern(r"sha256:[0-9a-f]{64}", "sha256: and 64 hex", "sha256:…")),
        ],
        ...,
    ] = Field(
        min_length=1,
        description="a list of hashes of the cluster's CA, sha256:…",
        examples=["[sha256:…]"],
    )
    timeout_seconds: StrictInt = Field(
        default=300,
        ge=10,
        le=3600,
        description="a whole number from 10 to 3600, seconds",
        examples=[300],
    )


class KubernetesPackagesSettings(Model):
    """Settings of the Kubernetes packages on hosts, and of the cluster that the hosts join.

    `version` None leaves the packages as they are. With `hold`, system upgrades do not
    change their version.
    """

    version: (
        Annotated[
            StrictStr,
            AfterValidator(pattern(r"1\.\d{1,2}\.\d{1,2}", "a version as 1.36.6", "1.36.6")),
        ]
        | None
    ) = Field(default=None, description="a version such as 1.36.6", examples=["1.36.6"])
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    hold: StrictBool = Field(
        default=True,
        description="true or false: upgrades of the system leave them alone",
        examples=["false"],
    )
    join: Join | None = Field(
        default=None, description="a mapping with endpoint and caCertHashes: workers join"
    )
    init: Init | None = Field(
        default=None,
        description="a mapping with endpoint and network: the stack creates the cluster",
    )

    @model_validator(mode="after")
    def _one_cluster(self) -> KubernetesPackagesSettings:
        if self.init and self.join:
            raise refuse(
                "init and join",
                "init for a new cluster, or join for an existing cluster",
                "remove init, or remove join",
            )
        # kubeadm supports the API kubeadm.k8s.io/v1beta4 since 1.31 (kubeadm reference).
        if self.init and (self.version is None or int(self.version.split(".")[1]) < FIRST):
            cure = 'write "version: 1.36.6", for example'
            raise refuse(f"init with version {self.version}", "1.31 or later", cure)
        return self

    @model_validator(mode="after")
    def _gates_that_the_kubelet_knows(self) -> KubernetesPackagesSettings:
        if self.init is None or self.version is None:
            return self
        gates = plain(self.init.kubelet_configuration).get("featureGates", {})
        if isinstance(gates, dict):
            for gate in removed(gates, int(self.version.split(".")[1])):
                raise refuse(
                    f"init.kubeletConfiguration.featureGates.{gate}",
                    f"feature gates of kubelet {self.version}",
                    f"take {gate} out; the kubelet does not start with it",
                )
        return self
