"""What the rules need to know, from the cluster that a stack declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rules import Context, Mig, Plugin, Pool, Sharing, Taint
from policies.rules.context import INFRASTRUCTURE_NAMESPACES

if TYPE_CHECKING:
    from config import Cluster

RUNTIME_CLASS = "nvidia"
GPU = "nvidia.com/gpu"
# gpu-operator v26.7.0 assets/state-container-toolkit and its CDI classes
_OPERATOR_CLASSES = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy"})


def context_of(cluster: Cluster) -> Context:
    """What a stack's `gpu-cluster:cluster` says of pools, platform, plugin and runtime.

    The namespaces of the platform and of the validation are the GPU stack's own. With the GPU
    Operator the plugin's configuration and, where it configures the runtime too, the default
    runtime are the operator's: not known here.
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
    operated = str(cluster.platform) == "gpu-operator"
    default = str(cluster.runtime.default_runtime) == RUNTIME_CLASS
    by_operator = operated and cluster.gpu_operator.toolkit
    own = {
        cluster.validation.namespace,
        cluster.gpu_operator.namespace if operated else cluster.device_plugin.namespace,
    }
    return Context(
        pools=pools,
        platform=str(cluster.platform),
        # With several configurations a pod's node decides: nothing is known of it here.
        plugin=None if operated or cluster.device_plugin.configs else _plugin(cluster),
        runtime_class=None if by_operator else "" if default else RUNTIME_CLASS,
        runtime_classes=_OPERATOR_CLASSES if operated else frozenset(),
        infrastructure_namespaces=INFRASTRUCTURE_NAMESPACES | own,
    )


def _plugin(cluster: Cluster) -> Plugin:
    file = cluster.device_plugin.config
    name, replicas = file.offered(GPU, 1)
    ways = {Sharing.TIME_SLICING: file.sharing.time_slicing, Sharing.MPS: file.sharing.mps}
    return Plugin(
        mig=Mig(str(file.flags.mig_strategy)),
        sharing=next((way for way, given in ways.items() if given), Sharing.NONE),
        renamed=name != GPU,
        replicas=replicas,
    )
