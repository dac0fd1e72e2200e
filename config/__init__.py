"""What a user declares: a GPU cluster, read from one structured key of a Pulumi stack file.

`load` checks a mapping, `load_stack_file` reads it from `Pulumi.<stack>.yaml`. Both return a
frozen `Cluster` or raise `ConfigError` with every problem at once. Nothing here imports Pulumi.

The names are loaded when they are first used: pydantic takes a tenth of a second to import, and
who only passes a `Cluster` on does not need it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.charts import Charts
    from config.cluster import Cluster
    from config.cuda import Cuda, CudaSource
    from config.device_plugin import DevicePlugin, Presence
    from config.device_plugin_config import DevicePluginConfig
    from config.device_plugin_flags import MigStrategy
    from config.dra import Dra
    from config.driver import Driver, DriverSource, FabricManager, KernelModule
    from config.driver_installer import DriverInstaller
    from config.gpu_manager import GpuManager
    from config.gpu_operator import GpuOperator
    from config.guardrails import FailurePolicy, GuardrailMode, Guardrails, Quota
    from config.host import Host, Role
    from config.inventory import origins
    from config.kernel import Kernel, KernelFlavor
    from config.kubernetes import Kubernetes
    from config.kubernetes_packages import Join, KubernetesPackages
    from config.loader import load
    from config.monitoring import Monitoring
    from config.packages import Packages
    from config.platform import Platform
    from config.pool import Pool
    from config.problem import ConfigError, Problem
    from config.reboot import Reboot, RebootWhen
    from config.registry import Registry
    from config.repository import Repositories, Repository, Signed
    from config.runfile import Runfile
    from config.runtime import DefaultRuntime, Engine, Runtime
    from config.scheduling import Scheduling
    from config.ssh import Bastion, Ssh
    from config.stack_file import load_stack_file
    from config.system import Firewall, LimitItem, Selinux, System
    from config.taint import Effect, Taint
    from config.validation import Validation


_HOMES = {
    "Bastion": "config.ssh",
    "Charts": "config.charts",
    "Cluster": "config.cluster",
    "ConfigError": "config.problem",
    "Cuda": "config.cuda",
    "CudaSource": "config.cuda",
    "DefaultRuntime": "config.runtime",
    "DevicePlugin": "config.device_plugin",
    "DevicePluginConfig": "config.device_plugin_config",
    "Driver": "config.driver",
    "DriverSource": "config.driver",
    "Effect": "config.taint",
    "Engine": "config.runtime",
    "FabricManager": "config.driver",
    "Firewall": "config.system",
    "FailurePolicy": "config.guardrails",
    "GpuOperator": "config.gpu_operator",
    "GuardrailMode": "config.guardrails",
    "Guardrails": "config.guardrails",
    "Host": "config.host",
    "Join": "config.kubernetes_packages",
    "Kernel": "config.kernel",
    "KernelFlavor": "config.kernel",
    "KernelModule": "config.driver",
    "Kubernetes": "config.kubernetes",
    "KubernetesPackages": "config.kubernetes_packages",
    "LimitItem": "config.system",
    "MigStrategy": "config.device_plugin_flags",
    "Packages": "config.packages",
    "Platform": "config.platform",
    "Pool": "config.pool",
    "Presence": "config.device_plugin",
    "Problem": "config.problem",
    "Reboot": "config.reboot",
    "RebootWhen": "config.reboot",
    "Registry": "config.registry",
    "Quota": "config.guardrails",
    "Repositories": "config.repository",
    "Repository": "config.repository",
    "Role": "config.host",
    "Runfile": "config.runfile",
    "Runtime": "config.runtime",
    "Selinux": "config.system",
    "Signed": "config.repository",
    "Ssh": "config.ssh",
    "System": "config.system",
    "Taint": "config.taint",
    "Validation": "config.validation",
    "Dra": "config.dra",
    "DriverInstaller": "config.driver_installer",
    "GpuManager": "config.gpu_manager",
    "Monitoring": "config.monitoring",
    "Scheduling": "config.scheduling",
    "load": "config.loader",
    "load_stack_file": "config.stack_file",
    "origins": "config.inventory",
}

__all__ = [
    "Bastion",
    "Charts",
    "Cluster",
    "ConfigError",
    "Cuda",
    "CudaSource",
    "DefaultRuntime",
    "DevicePlugin",
    "DevicePluginConfig",
    "Dra",
    "Driver",
    "DriverInstaller",
    "DriverSource",
    "Effect",
    "Engine",
    "FabricManager",
    "FailurePolicy",
    "Firewall",
    "GpuManager",
    "GpuOperator",
    "GuardrailMode",
    "Guardrails",
    "Host",
    "Join",
    "Kernel",
    "KernelFlavor",
    "KernelModule",
    "Kubernetes",
    "KubernetesPackages",
    "LimitItem",
    "MigStrategy",
    "Monitoring",
    "Packages",
    "Platform",
    "Pool",
    "Presence",
    "Problem",
    "Quota",
    "Reboot",
    "RebootWhen",
    "Registry",
    "Repositories",
    "Repository",
    "Role",
    "Runfile",
    "Runtime",
    "Scheduling",
    "Selinux",
    "Signed",
    "Ssh",
    "System",
    "Taint",
    "Validation",
    "load",
    "load_stack_file",
    "origins",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
