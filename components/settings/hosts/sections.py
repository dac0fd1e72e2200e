"""Sections of the stack file that describe how a host is prepared."""

from __future__ import annotations

from pydantic import Field

from components.base.model import Model
from components.settings.hosts.cuda import CudaSettings
from components.settings.hosts.driver import DriverSettings
from components.settings.hosts.kernel import KernelSettings
from components.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from components.settings.hosts.packages import PackagesSettings
from components.settings.hosts.proxy import ProxySettings
from components.settings.hosts.reboot import RebootSettings
from components.settings.hosts.runtime import RuntimeSettings
from components.settings.hosts.system import SystemSettings


class HostSections(Model):
    """The settings that the preparation steps read (`components.hosts.steps`).

    A stack declares these sections. A pool and a host can override some of them (`Overrides`); the
    host's values take precedence over the pool's, and the pool's over the stack's.
    """

    driver: DriverSettings = Field(default=DriverSettings(), description="a mapping with source")
    kernel: KernelSettings = Field(
        default=KernelSettings(), description="a mapping with release: a pinned kernel"
    )
    packages: PackagesSettings = Field(
        default=PackagesSettings(), description="a mapping: packages of the operating system"
    )
    cuda: CudaSettings = Field(
        default=CudaSettings(), description="a mapping with source: the CUDA toolkit"
    )
    kubernetes_packages: KubernetesPackagesSettings = Field(
        default=KubernetesPackagesSettings(),
        description="a mapping with version: kubelet, kubeadm, kubectl",
    )
    runtime: RuntimeSettings = Field(
        default=RuntimeSettings(), description="a mapping: the container runtime"
    )
    system: SystemSettings = Field(
        default=SystemSettings(),
        description="a mapping: swap, modules, sysctl, firewall, SELinux, limits",
    )
    proxy: ProxySettings = Field(
        default=ProxySettings(),
        description="a mapping with http, https and noProxy: how hosts go out",
    )
    reboot: RebootSettings = Field(default=RebootSettings(), description="a mapping with when")
