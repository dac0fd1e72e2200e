"""What a node of a pool offers: whole GPUs, MIG devices, or replicas of either."""

from __future__ import annotations

from dataclasses import dataclass

from components.nodes.settings.cards import CORE, cores
from components.nodes.settings.pool import Pool
from components.platforms.device_plugin.configuration import GPU, DevicePluginConfig
from components.platforms.device_plugin.flags import MigStrategy
from components.platforms.device_plugin.settings import CONFIG_LABEL
from components.platforms.gpu_operator.settings import OperatorPlugin
from components.platforms.settings import Platform
from components.settings.cluster import Cluster

#: Name of NVIDIA's DRA driver in ResourceSlices, and of its class of whole GPUs.
DRA_DRIVER = "gpu.nvidia.com"


@dataclass(frozen=True)
class Offer:
    """One extended resource of a node.

    Attributes:
        resource: its name.
        count: how much of it a node offers.
        ask: how much of it a validation pod asks for: all whole GPUs; of replicas and of MIG
            devices one, since a process uses one MIG device, and several replicas are no several
            GPUs. The others are counted only.
    """

    resource: str
    count: int
    ask: int


def plugin_file(cluster: Cluster, pool: Pool) -> DevicePluginConfig:
    """The device plugin's configuration on a pool's nodes."""
    name = pool.labels.get(CONFIG_LABEL)
    if cluster.platform is Platform.GPU_OPERATOR:
        return (cluster.gpu_operator.device_plugin or OperatorPlugin()).config_named(name)
    return cluster.device_plugin.config_named(name)


def offers(cluster: Cluster, pool: Pool) -> tuple[Offer, ...]:
    """What each node of a pool offers.

    A MIG device is ``nvidia.com/gpu`` under the strategy ``single`` and
    ``nvidia.com/mig-<profile>`` under ``mixed``, with ``.`` for the ``+`` of a profile's attributes
    (k8s-device-plugin v0.20.0, internal/rm and its README "MIG"). gpu-manager offers 100 units a
    card. Under `dra` there is no extended resource: the driver's name stands for the devices of its
    ResourceSlices (`components.nodes.inspect.with_devices`).
    """
    match cluster.platform:
        case Platform.GPU_MANAGER:
            units = cores(pool.gpus_per_node)
            return (Offer(CORE, units, units),)
        case Platform.DRA:
            return (Offer(DRA_DRIVER, pool.gpus_per_node, pool.gpus_per_node),)
    file = plugin_file(cluster, pool)
    strategy = file.flags.mig_strategy
    if cluster.platform is Platform.GPU_OPERATOR:
        strategy = cluster.gpu_operator.mig_strategy
    devices = {GPU: pool.gpus_per_node}
    if pool.mig and strategy is MigStrategy.MIXED:
        devices = {
            f"nvidia.com/mig-{profile.replace('+', '.')}": number * pool.gpus_per_node
            for profile, number in pool.mig.items()
        }
    elif pool.mig:
        devices = {GPU: sum(pool.mig.values()) * pool.gpus_per_node}
    found = ((count, *file.offered(resource, count)) for resource, count in devices.items())
    return tuple(
        Offer(name, count, count if count == plain and not pool.mig else 1)
        for plain, name, count in found
    )
