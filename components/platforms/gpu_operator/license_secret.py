"""The licence of vGPU guests, as the Secret that the operator's driver containers mount."""

from __future__ import annotations

import pulumi

from components.manifest import Manifest
from components.platforms.gpu_operator.settings import GpuOperator, Vgpu, VgpuFeature

#: ``FeatureType`` of gridd.conf; the numbers are those of NVML's nvmlGridLicenseFeatureCode_t.
FEATURE_TYPES = {VgpuFeature.VGPU: 1, VgpuFeature.WORKSTATION: 2, VgpuFeature.COMPUTE: 4}


def license_secret(
    parent: pulumi.ComponentResource,
    name: str,
    operator: GpuOperator,
    token: pulumi.Input[str] | None,
    namespace: Manifest,
) -> list[pulumi.Resource]:
    """The Secret that ``vgpu.licenseSecret`` names; none where the stack has no token.

    Its keys are mounted as files, both of them always (gpu-operator v26.7.0,
    internal/consts/consts.go).

    Args:
        token: a client configuration token of the licence system, a secret; None: the Secret is
            made by others.
        namespace: the operator's namespace.
    """
    if operator.vgpu is None or token is None:
        return []
    return [
        Manifest(
            f"{name}-license",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": operator.vgpu.license_secret,
                    "namespace": operator.namespace,
                    "labels": {"app.kubernetes.io/managed-by": "gpu-cluster"},
                },
                "type": "Opaque",
                "stringData": {
                    "gridd.conf": gridd(operator.vgpu),
                    "client_configuration_token.tok": pulumi.Output.secret(token),
                },
            },
            pulumi.ResourceOptions(
                parent=parent,
                depends_on=[namespace],
                additional_secret_outputs=["data", "stringData"],
            ),
        )
    ]


def gridd(vgpu: Vgpu) -> str:
    """The licence daemon's configuration; without a feature it takes the one of the vGPU's type."""
    return "" if vgpu.feature is None else f"FeatureType={FEATURE_TYPES[vgpu.feature]}\n"
