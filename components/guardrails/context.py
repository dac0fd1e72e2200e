"""What the rules need to know, from the cluster that a stack declares.

The rules, the pack and the checker themselves know a plain context only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rules import Context, Mig, Plugin, Pool, Sharing, Taint
from policies.rules.context import INFRASTRUCTURE_NAMESPACES

if TYPE_CHECKING:
    from components.nodes.settings.pool import Pool as DeclaredPool
    from components.settings.cluster import Cluster

RUNTIME_CLASS = "nvidia"
_OPERATOR = "gpu-operator"
_NVIDIA = frozenset({"device-plugin", _OPERATOR})
GPU = "nvidia.com/gpu"
# gpu-operator v26.7.0 assets/state-container-toolkit and its CDI classes
_OPERATOR_CLASSES = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy"})


def context_of(cluster: Cluster) -> Context:
    """What a stack's `gpu-cluster:cluster` says of pools, platform, plugin and runtime.

    The namespaces of the platform, of what comes with it and of the validation are the GPU stack's
    own. Where the GPU Operator configures the runtime too, the default runtime is not known here;
    nor is the plugin where its configuration differs between the pools.
    """
    pools = tuple(
        Pool(
            name=pool.name,
            gpus_per_node=pool.gpus_per_node,
            taints=tuple(Taint(each.key, each.value, str(each.effect)) for each in pool.taints),
            labels=dict(pool.labels),
            nodes=pool.size,
        )
        for pool in cluster.pools
    )
    platform = str(cluster.platform)
    guardrails = cluster.guardrails
    own = own_namespaces(cluster) | {cluster.validation.namespace}
    return Context(
        pools=pools,
        platform=platform,
        # With several configurations a pod's node decides: nothing is known of it here.
        plugin=None
        if platform not in _NVIDIA or cluster.device_plugin.configs
        else _plugin(cluster),
        runtime_class=_runtime_class(cluster),
        runtime_classes=_OPERATOR_CLASSES if platform == _OPERATOR else frozenset(),
        infrastructure_namespaces=INFRASTRUCTURE_NAMESPACES | own,
        max_gpus_per_container=guardrails.max_gpus_per_container if guardrails else None,
        max_gpus_per_pod=guardrails.max_gpus_per_pod if guardrails else None,
    )


def own_namespaces(cluster: Cluster) -> frozenset[str]:
    """The namespaces of what the stack deploys: its pods are privileged and see all GPUs."""
    from components.platforms.gpu_manager import values as gpu_manager

    by_platform = {
        "device-plugin": cluster.device_plugin.namespace,
        "gpu-operator": cluster.gpu_operator.namespace,
        "gpu-manager": gpu_manager.NAMESPACE,
        "dra": cluster.dra.namespace,
    }
    found = {by_platform[str(cluster.platform)], cluster.driver_installer.namespace}
    if cluster.monitoring is not None:
        found.add(cluster.monitoring.namespace)
    return frozenset(found)


def _runtime_class(cluster: Cluster) -> str | None:
    platform = str(cluster.platform)
    if platform not in _NVIDIA or (platform == _OPERATOR and cluster.gpu_operator.toolkit):
        return None
    default = str(cluster.runtime.default_runtime) == RUNTIME_CLASS
    return "" if default else RUNTIME_CLASS


def _plugin(cluster: Cluster) -> Plugin | None:
    """The plugin's configuration where it is one and the same on all pools with GPUs."""
    found = {_plugin_of(cluster, pool) for pool in cluster.pools if pool.gpus_per_node}
    return found.pop() if len(found) == 1 else None


def _plugin_of(cluster: Cluster, pool: DeclaredPool) -> Plugin:
    from components.platforms.device_plugin.settings import CONFIG_LABEL
    from components.platforms.gpu_operator.settings import OperatorPlugin

    label = pool.labels.get(CONFIG_LABEL)
    if str(cluster.platform) == _OPERATOR:
        file = (cluster.gpu_operator.device_plugin or OperatorPlugin()).config_named(label)
        strategy = Mig(str(cluster.gpu_operator.mig_strategy))
    else:
        file = cluster.device_plugin.config_named(label)
        strategy = Mig(str(file.flags.mig_strategy))
    if strategy is Mig.SINGLE and not pool.mig:
        strategy = Mig.NONE  # without MIG devices it advertises whole GPUs, as none does
    name, replicas = file.offered(GPU, 1)
    kind = Sharing.MPS if file.sharing.mps else Sharing.TIME_SLICING
    return Plugin(
        mig=strategy,
        sharing=kind if replicas > 1 else Sharing.NONE,
        renamed=name != GPU,
        replicas=replicas,
    )
