"""Derive the facts that the policy rules use from the desired state of a stack.

The rules, the policy pack and the manifest checker use a plain `Context` and don't import the
settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from gpu_cluster.base.model import FrozenDict
from gpu_cluster.platforms.base import Delivery, Platform, RunningPlugin, Trait
from gpu_cluster.platforms.own_namespaces import OwnNamespace
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.guardrails import GuardrailsSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.nodes.taint import Taint
from gpu_rules.context import Context, ExemptionFacts, Mig, PluginFacts, PoolFacts, Sharing
from gpu_rules.facts.host_folders import expand


def rules_context(
    platform: Platform,
    maintenance: Collection[str],
    namespaces: Iterable[OwnNamespace],
    guardrails: GuardrailsSettings | None,
) -> Context:
    """Return the facts about a stack that the rules use: pools, platform, plugin and runtime.

    Namespaces of the platform, the installed components and the validation count as infrastructure.
    If the GPU Operator configures the runtime, the default runtime is unknown. If the device
    plugin's configuration differs between pools, the plugin's configuration is unknown.

    Args:
        platform: The platform that advertises GPUs.
        maintenance: Names of nodes in maintenance.
        namespaces: Namespaces that the stack creates.
        guardrails: Section `guardrails`, or None.
    """
    site = platform.site
    context = Context(
        pools=tuple(facts for pool in site.pools for facts in _pool_facts(pool, site, maintenance)),
        platform=platform.site.platform,
        plugin=_shared_plugin_facts(platform),
        runtime_class=_runtime_class(platform),
        runtime_classes=platform.engines.runtime_classes,
        infrastructure_namespaces=frozenset(
            {*trusted_of_platform(platform), *(space.name for space in namespaces)}
        ),
        daemon_sets=platform.installation.daemon_sets,
    )
    return _with_guardrails(context, guardrails) if guardrails else context


def _pool_facts(pool: Pool, site: Site, maintenance: Collection[str]) -> Iterator[PoolFacts]:
    """Yield the facts of a pool; nodes that override its labels or taints are pools of their own.

    Labels that a node has in addition to the pool's don't count: the rules expect more labels on
    nodes than the stack sets.
    """
    nodes_by_scheduling: dict[tuple[FrozenDict[str, str], tuple[Taint, ...]], list[str]] = {}
    for pool_part in site.parts(pool):
        labels = FrozenDict({key: pool_part.labels[key] for key in pool.labels})
        nodes_by_scheduling.setdefault((labels, pool_part.taints), []).extend(pool_part.node_names)
    for (labels, taints), names in nodes_by_scheduling.items():
        is_plain = labels == pool.labels and taints == pool.taints
        size = len(names) if names else pool.size
        yield PoolFacts(
            name=pool.name if is_plain else f"{pool.name}-{names[0].replace('.', '-')}",
            gpus_per_node=pool.gpus_per_node,
            taints=tuple(taint.node_taint for taint in taints),
            labels=dict(labels),
            nodes=size - sum(name in maintenance for name in names),
            gpu_memory_mib=pool.gpu_memory_mib,
            node_names=frozenset(names),
        )


def trusted_of_platform(platform: Platform) -> frozenset[str]:
    """Return the namespaces in which the rules trust everything because of the platform.

    The namespace of an adopted release is not one of them, because it may have other pods: only the
    release's DaemonSets are trusted there. An operator's namespace always is one, because who may
    create pods in it can use the operator's service account, which creates privileged DaemonSets.
    """
    installation = platform.installation
    if installation.is_adopted and Trait.HAS_OPERATOR not in platform.traits:
        return frozenset()
    return frozenset({installation.namespace})


def _with_guardrails(context: Context, guardrails: GuardrailsSettings) -> Context:
    """Return the facts about a stack, completed by the settings of its section `guardrails`."""
    return replace(
        context,
        severities=dict(guardrails.rules),
        infrastructure_namespaces=context.trusted_namespaces.union(
            guardrails.infrastructure_namespaces
        ),
        resource_names=frozenset(guardrails.resource_names),
        runtime_classes=context.runtime_classes.union(guardrails.runtime_classes),
        allowed_host_paths=expand(guardrails.allowed_host_paths),
        other_claims=frozenset(guardrails.other_claims),
        exemptions=tuple(
            ExemptionFacts(
                rules=frozenset(exemption.rules),
                until=exemption.until,
                reason=exemption.reason,
                namespaces=exemption.namespaces,
                labels=dict(exemption.labels),
                images=exemption.images,
                host_paths=exemption.host_paths,
            )
            for exemption in guardrails.exemptions
        ),
        daemon_set_controllers=context.daemon_set_controllers.union(
            guardrails.daemon_set_controllers
        ),
        max_gpus_per_container=guardrails.max_gpus_per_container,
        max_gpus_per_pod=guardrails.max_gpus_per_pod,
    )


def _runtime_class(platform: Platform) -> str | None:
    """Return the name of the RuntimeClass that GPU pods need; empty if they need none.

    The result is None if the stack does not configure the container engines, because only their
    configuration shows which RuntimeClass GPU pods need.
    """
    if platform.delivery is not Delivery.RUNTIME or platform.engines.configured:
        return None
    return platform.runtime_class or ""


def _shared_plugin_facts(platform: Platform) -> PluginFacts | None:
    """Return the device plugin's configuration if all pools with GPUs share it, else None."""
    described = {
        _plugin_of(plugin, pool_part) if (plugin := platform.plugin(pool_part)) else None
        for pool in platform.site.gpu_pools
        for pool_part in platform.site.parts(pool)
    }
    return described.pop() if len(described) == 1 else None


def _plugin_of(plugin: RunningPlugin, pool: Pool) -> PluginFacts:
    strategy = Mig(plugin.mig_strategy)
    if strategy is Mig.SINGLE and not pool.mig:
        # Without MIG devices, the strategy `single` advertises whole GPUs, as `none` does.
        strategy = Mig.NONE
    kind = Sharing.MPS if plugin.mps else Sharing.TIME_SLICING
    return PluginFacts(
        mig=strategy,
        sharing=kind if plugin.replicas > 1 else Sharing.NONE,
        renamed=plugin.renamed,
        replicas=plugin.replicas,
    )
