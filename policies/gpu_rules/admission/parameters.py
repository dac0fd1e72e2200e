"""The facts about the cluster that the admission policies read, as a map in CEL."""

from __future__ import annotations

import re
from typing import Final

from ..kube.gpu_resources import GPU, GPU_SHARED, KNOWN
from ..rules import Context, Mig, NodeTaint, PoolFacts, Sharing
from ..rules.cel import NAMES, text
from ..rules.placement.room import per_node
from ..rules.pools import gpu_pools, hard_taints

# Maximum number of whole GPUs in a container for which the match condition may skip a pod.
_MOST: Final = 16
# Maximum length of the map in characters. The CEL parser accepts expressions of up to 100,000 code
# points (cel-go v0.28.1 parser/parser.go).
_LONGEST: Final = 90_000
_BLOCK_MIB: Final = 256  # MemoryBlockSize in tkestack gpu-manager pkg/types/types.go


def literal(context: Context, used_by: str) -> str:
    """Return a CEL map with those facts about the cluster that given CEL expressions read.

    The facts are literals in the policies and not parameters in a ConfigMap (`paramKind`). After
    the last policy with a ConfigMap is deleted, the API server no longer reads ConfigMaps for
    policies that are created later, and denies all requests that these policies match
    (kubernetes/kubernetes#130887, open in v1.36).

    Args:
        used_by: CEL expressions that read the map under the name `facts`.

    Raises:
        ValueError: The map is longer than the API server accepts.
    """
    pairs = [
        f"{text(key)}: {text(value)}"
        for key, value in data(context).items()
        if _is_read(key, used_by)
    ]
    cel = f"{{{', '.join(pairs)}}}"
    if len(cel) > _LONGEST:
        raise ValueError(
            f"pools: found facts of {len(cel)} characters for admission policies; wanted: at most "
            f"{_LONGEST}; cure: use fewer pools, fewer labels or shorter names of nodes"
        )
    return cel


def _is_read(key: str, cel: str) -> bool:
    """Return whether a CEL expression reads the fact with a key such as `platform` or `a.taints`.

    Expressions append the part after the dot to the name of a pool.
    """
    _, pool, fact = key.partition(".")
    map_key = f".{fact}" if pool else key
    return f'"{map_key}"' in cel or re.search(rf"\bfacts\.{re.escape(key)}\b", cel) is not None


def data(context: Context) -> dict[str, str]:
    """Return the facts about the cluster as texts, by key.

    Lists are joined by commas, which no name, label or taint contains. Facts that are not known are
    left out. Each pool that has GPUs adds these keys: `<pool>.labels` (key=value), `<pool>.taints`
    (key=value:effect, only taints that keep pods away), `<pool>.<resource>` (amount per node),
    `<pool>.<resource>.all` (amount on all nodes) and `<pool>.blocks` (vcuda-memory blocks of 256
    MiB per GPU).
    """
    pools = gpu_pools(context)
    # A name without a slash is that of a DeviceClass.
    names = {name for name in context.resource_names if "/" in name}
    taints = {_taint_text(taint) for pool in pools for taint in hard_taints(pool)}
    result = {
        "allowedHostPaths": _sorted_list(context.allowed_host_paths),
        "daemonSetControllers": _sorted_list(context.daemon_set_controllers),
        "extendedResourceToleration": str(context.extended_resource_toleration).lower(),
        # The names of the nodes of a pool that is declared by a selector are not known.
        "gpuNodes": _sorted_list({name for pool in pools for name in pool.node_names or {"*"}}),
        "gpuResources": _sorted_list(KNOWN | names),
        "otherClaims": _sorted_list(context.other_claims),
        "pools": ",".join(pool.name for pool in pools),
        "resourceNames": _sorted_list(context.resource_names),
        "runtimeClasses": _sorted_list(context.runtime_classes),
        "sharedResources": _sorted_list(context.shared_resources),
        "sizesKnown": str(any(pool.nodes is not None for pool in context.pools)).lower(),
        "taints": _sorted_list(taints),
        "trustIsDeclared": str(context.trust_is_declared).lower(),
        "trustedDaemonSets": _sorted_list(context.daemon_sets),
        "trustedNamespaces": _sorted_list(context.trusted_namespaces),
    }
    optional = {
        "platform": context.platform,
        "runtimeClass": context.runtime_class,
        "maxGpusPerContainer": context.max_gpus_per_container,
        "maxGpusPerPod": context.max_gpus_per_pod,
    }
    result |= {key: str(value) for key, value in optional.items() if value is not None}
    result |= _ordinary_facts(pools, context)
    if plugin := context.plugin:
        shared = plugin.sharing is not Sharing.NONE
        result["notAdvertised"] = GPU if shared and plugin.renamed else GPU_SHARED
        result["migByName"] = str(plugin.mig is Mig.MIXED).lower()
    for pool in pools:
        result |= _pool_parameters(pool, context)
    return result


def _ordinary_facts(pools: tuple[PoolFacts, ...], context: Context) -> dict[str, str]:
    """Return the GPU resource and the GPU counts for which the match condition may skip a pod."""
    plugin, platform = context.plugin, context.platform
    plain = platform in (None, "device-plugin", "gpu-operator") and (
        plugin is None or plugin.sharing is Sharing.NONE
    )
    sizes = [size for pool in pools if (size := per_node(pool, GPU, context)) is not None]
    caps = [
        cap for cap in (context.max_gpus_per_container, context.max_gpus_per_pod) if cap is not None
    ]
    return {
        "ordinaryGpu": GPU if plain else "",
        "ordinaryGpus": ",".join(str(1 + n) for n in range(min([_MOST, *sizes, *caps]))),
    }


def _sorted_list(values: frozenset[str] | set[str]) -> str:
    return ",".join(sorted(values))


def _taint_text(taint: NodeTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def _pool_parameters(pool: PoolFacts, context: Context) -> dict[str, str]:
    described = {
        f"{pool.name}.labels": _sorted_list(
            {f"{key}={value}" for key, value in pool.labels.items()}
        ),
        f"{pool.name}.taints": ",".join(map(_taint_text, hard_taints(pool))),
    }
    for variable, name in NAMES.items():
        size = per_node(pool, name, context)
        if size is not None:
            described[f"{pool.name}.{variable}"] = str(size)
            if pool.nodes is not None:
                described[f"{pool.name}.{variable}.all"] = str(size * pool.nodes)
    if pool.gpu_memory_mib is not None:
        described[f"{pool.name}.blocks"] = str(pool.gpu_memory_mib // _BLOCK_MIB)
    return described
