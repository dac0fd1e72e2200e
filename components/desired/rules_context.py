"""What the rules need to know, from the cluster that a stack declares.

The rules, the pack and the checker themselves know a plain context only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from components.platforms.base import Delivery, Platform, RunningPlugin
from components.platforms.own_namespaces import OwnNamespace
from components.settings.guardrails import GuardrailsSettings
from components.settings.nodes.pool import Pool as DeclaredPool
from policies.rules import Context, Mig, PluginFacts, PoolFacts, Sharing, TaintFacts
from policies.rules.context import DAEMON_SET_CONTROLLERS, INFRASTRUCTURE_NAMESPACES


def rules_context(
    platform: Platform,
    maintenance: Collection[str],
    namespaces: Iterable[OwnNamespace],
    guardrails: GuardrailsSettings | None,
) -> Context:
    """Return what the rules know of a stack: its pools, platform, plugin and runtime.

    The namespaces of the platform, of what comes with it and of the validation are the GPU stack's
    own. Where the GPU Operator configures the runtime too, the default runtime is not known here;
    nor is the plugin where its configuration differs between the pools.

    Args:
        platform: the platform.
        maintenance: nodes in maintenance.
        namespaces: the namespaces that the stack makes.
        guardrails: the section `guardrails`; None: the stack declares none.
    """
    pools = tuple(
        PoolFacts(
            name=pool.name,
            gpus_per_node=pool.gpus_per_node,
            taints=tuple(
                TaintFacts(taint.key, taint.value, str(taint.effect)) for taint in pool.taints
            ),
            labels=dict(pool.labels),
            nodes=pool.size - sum(name in maintenance for name in pool.node_names),
            node_names=frozenset(pool.node_names if pool.nodes else ()),
        )
        for pool in platform.site.pools
    )
    return Context(
        pools=pools,
        platform=platform.site.platform,
        plugin=_plugin(platform),
        runtime_class=_runtime_class(platform),
        runtime_classes=platform.engines.runtime_classes,
        infrastructure_namespaces=INFRASTRUCTURE_NAMESPACES.union(
            space.name for space in namespaces
        ),
        daemon_set_controllers=DAEMON_SET_CONTROLLERS.union(
            guardrails.daemon_set_controllers if guardrails else ()
        ),
        max_gpus_per_container=guardrails.max_gpus_per_container if guardrails else None,
        max_gpus_per_pod=guardrails.max_gpus_per_pod if guardrails else None,
    )


def _runtime_class(platform: Platform) -> str | None:
    """The class that pods name, empty where none; None where the cluster alone decides."""
    if platform.delivery is not Delivery.RUNTIME or platform.engines.configured:
        return None
    return platform.runtime_class or ""


def _plugin(platform: Platform) -> PluginFacts | None:
    """The plugin's configuration where it is one and the same on all pools with GPUs."""
    described = {
        _plugin_of(plugin, pool) if (plugin := platform.plugin(pool)) else None
        for pool in platform.site.gpu_pools
    }
    return described.pop() if len(described) == 1 else None


def _plugin_of(plugin: RunningPlugin, pool: DeclaredPool) -> PluginFacts:
    strategy = Mig(plugin.mig_strategy)
    if strategy is Mig.SINGLE and not pool.mig:
        strategy = Mig.NONE  # without MIG devices it advertises whole GPUs, as none does
    kind = Sharing.MPS if plugin.mps else Sharing.TIME_SLICING
    return PluginFacts(
        mig=strategy,
        sharing=kind if plugin.replicas > 1 else Sharing.NONE,
        renamed=plugin.renamed,
        replicas=plugin.replicas,
    )
