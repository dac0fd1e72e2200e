"""vGPU guests: the license of nodes that are virtual machines with NVIDIA vGPUs."""

from __future__ import annotations

from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms.base import ExtraObject
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.gpu_operator import Vgpu, VgpuFeature

# `FeatureType` in gridd.conf; the numbers are those of NVML's nvmlGridLicenseFeatureCode_t.
FEATURE_TYPES = {VgpuFeature.VGPU: 1, VgpuFeature.WORKSTATION: 2, VgpuFeature.COMPUTE: 4}
# Name of the stack's secret that contains a client configuration token of the license system.
TOKEN = "licenseToken"  # noqa: S105  a name, not a secret value


def gridd(vgpu: Vgpu) -> str:
    """Return the content of gridd.conf, the configuration of NVIDIA's vGPU license daemon.

    The content is empty if `vgpu.feature` is unset; the vGPU type then decides which feature is
    licensed.
    """
    return "" if vgpu.feature is None else f"FeatureType={FEATURE_TYPES[vgpu.feature]}\n"


def license_secret(namespace: str, vgpu: Vgpu) -> ExtraObject:
    """Return the Secret that `vgpu.licenseSecret` names, which driver containers mount.

    The operator always mounts both keys as files (gpu-operator v26.7.0, internal/consts/consts.go).
    """
    return ExtraObject(
        key="license",
        manifest={
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": vgpu.license_secret, "namespace": namespace, "labels": LABELS},
            "type": "Opaque",
        },
        secret=TOKEN,
        content=lambda token: {
            "gridd.conf": gridd(vgpu),
            "client_configuration_token.tok": token,
        },
        without=(
            f"gpuOperator.vgpu: the stack has no {TOKEN}, so drivers wait until somebody creates "
            f"the Secret {namespace}/{vgpu.license_secret}; cure: `pulumi config set "
            f"--secret gpu-cluster:{TOKEN} < client_configuration_token.tok`"
        ),
    )


def endpoints(vgpu: Vgpu | None, site: Site) -> dict[str, str]:
    """Return the endpoints that vGPU guests must reach: license server and driver registry."""
    if vgpu is None:
        return {}
    servers = {"licence server": vgpu.license_server} if vgpu.license_server else {}
    if repository := site.shared.driver.image_repository or site.registry.mirror:
        host = repository.split("/")[0]
        servers["registry"] = host if ":" in host else f"{host}:443"
    return servers
