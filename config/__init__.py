"""What a user declares: a GPU cluster, read from one structured key of a Pulumi stack file.

`load` checks a mapping, `load_stack_file` reads it from `Pulumi.<stack>.yaml`. Both return a
frozen `Cluster` or raise `ConfigError` with every problem at once. Nothing here imports Pulumi.
"""

from config.charts import Charts
from config.cluster import Cluster
from config.device_plugin import DevicePlugin, DevicePluginConfig
from config.driver import Driver, DriverSource
from config.gpu_operator import GpuOperator
from config.host import Host, Role
from config.kubernetes import Kubernetes
from config.load import load
from config.platform import Platform
from config.pool import Pool
from config.problem import ConfigError, Problem
from config.runtime import DefaultRuntime, Engine, Runtime
from config.ssh import Bastion, Ssh
from config.stack_file import load_stack_file
from config.taint import Effect, Taint
from config.validation import Validation

__all__ = [
    "Bastion",
    "Charts",
    "Cluster",
    "ConfigError",
    "DefaultRuntime",
    "DevicePlugin",
    "DevicePluginConfig",
    "Driver",
    "DriverSource",
    "Effect",
    "Engine",
    "GpuOperator",
    "Host",
    "Kubernetes",
    "Platform",
    "Pool",
    "Problem",
    "Role",
    "Runtime",
    "Ssh",
    "Taint",
    "Validation",
    "load",
    "load_stack_file",
]
