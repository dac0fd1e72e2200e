"""kubelet, kubeadm and kubectl on the hosts, and how a host joins its cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from components.hosts.settings.repository import Repositories
from config.model import Model
from config.versions import pattern

_ENDPOINT = r"(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):\d{1,5}"


class Join(Model):
    """`kubeadm join`; its token is the stack secret `gpu-cluster:kubeadmToken`."""

    endpoint: Annotated[
        StrictStr,
        AfterValidator(pattern(_ENDPOINT, "host:port of the API server", "192.0.2.1:6443")),
    ] = Field(description="host:port of the API server", examples=["192.0.2.1:6443"])
    ca_cert_hashes: tuple[
        Annotated[
            StrictStr,
            AfterValidator(pattern(r"sha256:[0-9a-f]{64}", "sha256: and 64 hex", "sha256:…")),
        ],
        ...,
    ] = Field(min_length=1, description="a list of hashes of the cluster's CA, sha256:…")
    timeout_seconds: StrictInt = Field(
        default=300, ge=10, le=3600, description="a whole number from 10 to 3600, seconds"
    )


class KubernetesPackages(Model):
    """`version` None leaves Kubernetes' packages alone. Held packages stay at that version."""

    version: (
        Annotated[
            StrictStr,
            AfterValidator(pattern(r"1\.\d{1,2}\.\d{1,2}", "a version as 1.34.4", "1.34.4")),
        ]
        | None
    ) = Field(default=None, description="a version such as 1.34.4", examples=["1.34.4"])
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: where packages come from"
    )
    hold: StrictBool = Field(
        default=True, description="true or false: upgrades of the system leave them alone"
    )
    join: Join | None = Field(
        default=None, description="a mapping with endpoint and caCertHashes: workers join"
    )
