"""The sections by which hosts are prepared, as a stack and as each host has them."""

from __future__ import annotations

from pydantic import Field

from components.base.model import Model
from components.settings.hosts.cuda import Cuda
from components.settings.hosts.driver import Driver
from components.settings.hosts.kernel import Kernel
from components.settings.hosts.kubernetes_packages import KubernetesPackages
from components.settings.hosts.packages import Packages
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.reboot import Reboot
from components.settings.hosts.runtime import Runtime
from components.settings.hosts.system import System


class HostSections(Model):
    """What the steps of hosts read (`components.hosts.steps`).

    A stack declares them. A host has its own and its pool's values over them, where it may override
    them (`Overrides`).
    """

    driver: Driver = Field(default=Driver(), description="a mapping with source")
    kernel: Kernel = Field(default=Kernel(), description="a mapping with release: a pinned kernel")
    packages: Packages = Field(
        default=Packages(), description="a mapping: packages of the operating system"
    )
    cuda: Cuda = Field(default=Cuda(), description="a mapping with source: the CUDA toolkit")
    kubernetes_packages: KubernetesPackages = Field(
        default=KubernetesPackages(),
        description="a mapping with version: kubelet, kubeadm, kubectl",
    )
    runtime: Runtime = Field(default=Runtime(), description="a mapping: the container runtime")
    system: System = Field(
        default=System(), description="a mapping: swap, modules, sysctl, firewall, SELinux, limits"
    )
    proxy: Proxy = Field(
        default=Proxy(), description="a mapping with http, https and noProxy: how hosts go out"
    )
    reboot: Reboot = Field(default=Reboot(), description="a mapping with when")
