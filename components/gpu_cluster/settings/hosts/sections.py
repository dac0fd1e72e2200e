"""Sections of the stack file that describe how a host is prepared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Self

from pydantic import Field

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.cuda import CudaSettings
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.kernel import KernelSettings
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.hosts.packages import PackagesSettings
from gpu_cluster.settings.hosts.proxy import ProxySettings
from gpu_cluster.settings.hosts.reboot import RebootSettings
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster.settings.hosts.system import SystemSettings


class NodeSections(Model):
    """Sections that the stack declares and that a pool and a host override, key by key.

    The host's values take precedence over the pool's, and the pool's over the stack's.
    `gpu_cluster.loading.inventory.resolved` writes the stack's values into each pool and host, so
    the sections of a pool or a host are complete after loading.
    """

    driver: DriverSettings = Field(
        default_factory=cache(DriverSettings), description="a mapping with source"
    )
    kernel: KernelSettings = Field(
        default_factory=cache(KernelSettings), description="a mapping with release: a pinned kernel"
    )
    cuda: CudaSettings = Field(
        default_factory=cache(CudaSettings), description="a mapping with source: the CUDA toolkit"
    )
    runtime: RuntimeSettings = Field(
        default_factory=cache(RuntimeSettings), description="a mapping: the container runtime"
    )
    system: SystemSettings = Field(
        default_factory=cache(SystemSettings),
        description="a mapping: swap, modules, sysctl, firewall, SELinux, limits",
    )

    @property
    def sections(self) -> NodeSections:
        """Return only the sections, without other settings of a pool or host."""
        values = {name: getattr(self, name) for name in NodeSections.model_fields}
        return NodeSections.model_construct(**values)

    def with_inherited(self, sections: Mapping[str, Model | None]) -> Self:
        """Return a pool or host in which sections that it inherits are written out.

        They don't count as set (`model_fields_set`), so that a changed copy of the stack's
        settings is merged again.
        """
        node = self.model_copy(update=sections)
        node.model_fields_set.intersection_update(self.model_fields_set)
        return node


class StackSections(Model):
    """Sections that have the same values on all hosts of a stack."""

    packages: PackagesSettings = Field(
        default=PackagesSettings(), description="a mapping: packages of the operating system"
    )
    kubernetes_packages: KubernetesPackagesSettings = Field(
        default=KubernetesPackagesSettings(),
        description="a mapping with version: kubelet, kubeadm, kubectl",
    )
    proxy: ProxySettings = Field(
        default=ProxySettings(),
        description="a mapping with http, https and noProxy: how hosts go out",
    )
    reboot: RebootSettings = Field(default=RebootSettings(), description="a mapping with when")


class HostSections(StackSections, NodeSections):
    """The settings that the preparation steps read (`gpu_cluster.hosts.steps`)."""
