"""What the twins need to know of the cluster, as the ConfigMap that is their parameter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from policies.rules import Context, Pool
from policies.rules.resource_names import KNOWN, is_extended

NAMESPACE: Final = "kube-system"
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def config_map(context: Context, labels: Mapping[str, str]) -> dict[str, Any]:
    """The parameter. Its name follows from its content, so that it never changes under a policy:

    a change is a new ConfigMap, to which the bindings then turn.
    """
    content = data(context)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"gpu-rules-{digest[:10]}",
            "namespace": NAMESPACE,
            "labels": dict(labels),
        },
        "immutable": True,
        "data": content,
    }


def data(context: Context) -> dict[str, str]:
    """The context as texts: lists are joined by commas, which no name, label or taint holds.

    Of each pool that has GPUs: `<pool>.gpus` per node, `<pool>.labels` as key=value,
    `<pool>.taints` as key=value:effect, only those that keep pods away.
    """
    pools = [pool for pool in context.pools if pool.gpus_per_node > 0]
    names = {name for name in context.resource_names if is_extended(name)}
    found = {
        "extendedResourceToleration": str(context.extended_resource_toleration).lower(),
        "gpuResources": ",".join(sorted(KNOWN | names)),
        "infrastructureNamespaces": ",".join(sorted(context.infrastructure_namespaces)),
        "platform": context.platform or "",
        "pools": ",".join(pool.name for pool in pools),
        "resourceNames": ",".join(sorted(context.resource_names)),
    }
    for pool in pools:
        found |= _pool(pool)
    return found


def _pool(pool: Pool) -> dict[str, str]:
    taints = [
        f"{each.key}={each.value}:{each.effect}"
        for each in pool.taints
        if each.effect in _KEEPS_AWAY
    ]
    return {
        f"{pool.name}.gpus": str(pool.gpus_per_node),
        f"{pool.name}.labels": ",".join(f"{key}={pool.labels[key]}" for key in sorted(pool.labels)),
        f"{pool.name}.taints": ",".join(taints),
    }
