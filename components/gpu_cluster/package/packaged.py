"""Components of the Pulumi package, and the settings that each component accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpu_cluster.cluster import (
    GpuCluster,
    GpuDevicePlugin,
    GpuGuardrails,
    GpuHosts,
    GpuOperator,
    GpuValidation,
)
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.hosts.sections import HostSections

_EACH = ("kubernetes", "pools", "maintenance", "registry")
_PLATFORMS = ("device_plugin", "gpu_operator", "gpu_manager", "hami", "dra")
_SERVING = ("runtime", "driver", "driver_installer", "scheduling", "adopted", "charts")
_OF_FILE = ("version", "state_copies")
"""Settings for the format of a stack file and for commands, which a program does not use."""
_KUBECONFIG, _KEY, _REGISTRY = "kubeconfig", "private_key", "registry_credentials"


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """A component of the Pulumi package.

    Attributes:
        component: Class of the component.
        sections: Sections of the settings that are inputs, by their names in `ClusterSettings`.
        secrets: Secret inputs, by their names in `GpuClusterArgs`. Their values may be unknown.
        needed: Sections that the component requires though `ClusterSettings` does not.
    """

    component: type[GpuCluster]
    sections: tuple[str, ...]
    secrets: tuple[str, ...]
    needed: tuple[str, ...] = ()

    @property
    def makes_cluster(self) -> bool:
        """Return True if the component can create a cluster; its kubeconfig is then an output."""
        return "kubernetes_packages" in self.sections


_COMPONENTS = (
    Packaged(
        component=GpuCluster,
        sections=tuple(name for name in ClusterSettings.model_fields if name not in _OF_FILE),
        secrets=(_KUBECONFIG, _KEY, _REGISTRY),
    ),
    Packaged(
        component=GpuHosts,
        sections=(*_EACH, "platform", "hosts", "ssh", "rollout", *HostSections.model_fields),
        secrets=(_KUBECONFIG, _KEY),
        needed=("hosts",),
    ),
    Packaged(
        component=GpuDevicePlugin,
        sections=(*_EACH, "device_plugin", *_SERVING, "monitoring"),
        secrets=(_KUBECONFIG, _REGISTRY),
    ),
    Packaged(
        component=GpuOperator,
        sections=(*_EACH, "gpu_operator", *_SERVING, "monitoring", "rollout"),
        secrets=(_KUBECONFIG, _REGISTRY),
    ),
    Packaged(
        component=GpuValidation,
        sections=(*_EACH, "platform", *_PLATFORMS, "scheduling", "validation"),
        secrets=(_KUBECONFIG, _REGISTRY),
    ),
    Packaged(
        component=GpuGuardrails,
        sections=(*_EACH, "platform", *_PLATFORMS, "validation", "monitoring", "guardrails"),
        secrets=(_KUBECONFIG,),
        needed=("guardrails",),
    ),
)

COMPONENTS: Mapping[str, Packaged] = MappingProxyType(
    {packaged.component.TYPE: packaged for packaged in _COMPONENTS}
)
"""The components by their type token."""
