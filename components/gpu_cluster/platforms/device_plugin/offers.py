"""Resources that NVIDIA's device plugin advertises: whole GPUs, MIG devices, or replicas."""

from __future__ import annotations

from gpu_cluster.platforms.base import NodeOverride, Offer, RunningPlugin
from gpu_cluster.settings.device_plugin import CONFIG_LABEL
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.plugin_configuration import DevicePluginConfig
from gpu_cluster.settings.plugin_flags import MigStrategy
from gpu_rules.kube.gpu_resources import GPU, MIG


def offers(file: DevicePluginConfig, strategy: MigStrategy, pool: Pool) -> tuple[Offer, ...]:
    """Return the extended resources that each node of a pool advertises.

    A MIG device is `nvidia.com/gpu` with the strategy `single` and `nvidia.com/mig-<profile>` with
    `mixed`, where `.` replaces the `+` before the profile's attributes (k8s-device-plugin v0.20.0,
    internal/rm and its README "MIG").
    """
    devices = {GPU: pool.gpus_per_node}
    if pool.mig and strategy is MigStrategy.MIXED:
        devices = {
            f"{MIG}{profile.replace('+', '.')}": number * pool.gpus_per_node
            for profile, number in pool.mig.items()
        }
    elif pool.mig:
        devices = {GPU: sum(pool.mig.values()) * pool.gpus_per_node}
    shared = ((count, *file.offered(resource, count)) for resource, count in devices.items())
    return tuple(Offer(name, count, plain) for plain, name, count in shared)


def described(file: DevicePluginConfig, strategy: MigStrategy) -> RunningPlugin:
    """Return how the device plugin advertises GPUs if it runs with the given configuration file."""
    name, replicas = file.offered(GPU, 1)
    return RunningPlugin(
        mig_strategy=str(strategy),
        replicas=replicas,
        mps=file.sharing.mps is not None,
        renamed=name != GPU,
    )


def plugin_file_override(setting: str) -> NodeOverride:
    """Return the label with which a node takes another configuration file of the device plugin.

    Source: k8s-device-plugin v0.20.0, cmd/config-manager.

    Args:
        setting: Section of the stack file with the configuration files.
    """
    effect = "the device plugin takes the file of this name"
    return NodeOverride(CONFIG_LABEL, setting, effect, values=frozenset())
