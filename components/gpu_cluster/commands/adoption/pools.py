"""Group the GPU nodes of a running cluster into pools. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpu_cluster.base.names import POOL_NAME_LIMIT, LabelValue, OwnLabelKey
from gpu_cluster.commands.adoption.observed import ObservedNode
from gpu_cluster.settings.device_plugin import CONFIG_LABEL
from gpu_cluster.settings.nodes.node_range import natural_order, ranges
from gpu_cluster.settings.nodes.taint import Taint
from gpu_rules.kube.gpu_resources import GPU, GPU_SHARED, MIG

PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
SHARING = "nvidia.com/gpu.sharing-strategy"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_NUMBER = re.compile(r"[0-9]{1,4}")
# Endings that GPU feature discovery adds to a product's name for shared and partitioned GPUs
# (k8s-device-plugin v0.20.0, internal/lm/resource.go).
_ENDING = re.compile(r"(-MIG-[A-Za-z0-9.+]+|-SHARED)+$")


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How the device plugin shares the GPUs of a node.

    Attributes:
        replicas: Number of times that each GPU is advertised.
        mps: True for MPS, False for time slicing.
        renamed: True if the resource has the suffix `.shared`.
    """

    replicas: int = 1
    mps: bool = False
    renamed: bool = False


@dataclass(frozen=True, kw_only=True)
class ObservedPool:
    """Nodes with the same GPUs, taints and configuration.

    Attributes:
        product: Name of the GPU model, as GPU feature discovery reports it; empty if GPU feature
            discovery does not run.
        gpus: Number of GPUs of each node; 0 if no label or resource shows the number.
        nodes: The nodes, sorted by name.
        taints: Taints that each node of the pool has.
        mig: Number of MIG devices per GPU, by MIG profile.
        sharing: How the device plugin shares the GPUs.
        config: Name of the device plugin's configuration that the nodes select; empty for none.
    """

    product: str
    gpus: int
    nodes: tuple[ObservedNode, ...]
    taints: tuple[Taint, ...] = ()
    mig: Mapping[str, int] = field(default_factory=dict)
    sharing: Sharing = Sharing()
    config: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that people set to the same value on all nodes of the pool."""
        first, *other_nodes = self.nodes
        return {
            key: value
            for key, value in sorted(first.labels.items())
            if all(node.labels.get(key) == value for node in other_nodes)
            and is_declarable(key, value)
        }


def gpu_pools(nodes: Iterable[ObservedNode]) -> tuple[ObservedPool, ...]:
    """Return the pools of a cluster's nodes with GPUs, sorted by product and first node."""
    groups: dict[tuple[Any, ...], list[ObservedNode]] = {}
    for node in nodes:
        if _reports_gpus(node):
            groups.setdefault(_pool_key(node), []).append(node)
    pools = [_observed_pool(key, tuple(members)) for key, members in groups.items()]
    return tuple(sorted(pools, key=lambda pool: (pool.product, natural_order(pool.nodes[0].name))))


def _observed_pool(key: tuple[Any, ...], nodes: tuple[ObservedNode, ...]) -> ObservedPool:
    product, gpus, _, mig, sharing, config = key
    return ObservedPool(
        product=product,
        gpus=gpus,
        nodes=nodes,
        taints=nodes[0].taints,
        mig=dict(mig),
        sharing=sharing,
        config=config,
    )


def _reports_gpus(node: ObservedNode) -> bool:
    return bool(node.advertised or PRODUCT in node.reported)


def _pool_key(node: ObservedNode) -> tuple[Any, ...]:
    taints = frozenset(map(str, node.taints))
    mig = tuple(sorted(_mig_devices(node).items()))
    product = _ENDING.sub("", node.reported.get(PRODUCT, ""))
    config = node.labels.get(CONFIG_LABEL, "")
    return product, _count_gpus(node), taints, mig, _read_sharing(node), config


def _reported_gpus(node: ObservedNode) -> int:
    """Return the number of GPUs that GPU feature discovery reports; 0 if it reports none.

    With the MIG strategy `single`, GPU feature discovery counts MIG devices instead of GPUs.
    """
    text = node.reported.get(COUNT, "")
    return int(text) if _NUMBER.fullmatch(text) and not _is_single(node) else 0


def _is_single(node: ObservedNode) -> bool:
    return "-MIG-" in node.reported.get(PRODUCT, "")


def _count_gpus(node: ObservedNode) -> int:
    if _is_single(node):
        return 0
    return _reported_gpus(node) or _registered_gpus(node) or node.advertised.get(GPU, 0)


def _registered_gpus(node: ObservedNode) -> int:
    """Return the number of GPUs that HAMi registered; 0 if the node does not advertise them.

    HAMi advertises each GPU several times. Its annotation stays on a node when HAMi is removed.
    """
    gpus, advertised = node.registered, node.advertised.get(GPU, 0)
    return gpus if gpus and advertised and advertised % gpus == 0 else 0


def _mig_devices(node: ObservedNode) -> dict[str, int]:
    """Return the number of MIG devices per GPU, by profile; empty if the GPUs differ."""
    devices = {
        name.removeprefix(MIG): number
        for name, number in node.advertised.items()
        if name.startswith(MIG)
    }
    gpus = _reported_gpus(node)
    if not gpus or any(number % gpus for number in devices.values()):
        return {}
    return {profile: number // gpus for profile, number in devices.items()}


def _read_sharing(node: ObservedNode) -> Sharing:
    gpus, renamed = _reported_gpus(node), GPU_SHARED in node.advertised
    offered = node.advertised.get(GPU_SHARED if renamed else GPU, 0)
    replicas = offered // gpus if gpus and offered and offered % gpus == 0 else 1
    return Sharing(
        replicas=max(replicas, 1),
        mps=node.reported.get(SHARING) == "mps",
        renamed=renamed,
    )


_LABEL: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[OwnLabelKey, LabelValue])


def is_declarable(key: str, value: str) -> bool:
    """Return True if a stack file may declare the label."""
    try:
        _LABEL.validate_python((key, value))
    except ValidationError:
        return False
    return True


def pool_names(pools: Sequence[ObservedPool]) -> list[str]:
    """Return a unique name for each pool, taken from the GPU model, such as `a100`."""
    short = [_short_model(pool.product) for pool in pools]
    counts = Counter(short)
    return unique_names(
        [
            (_product_slug(pool.product) or name) if counts[name] > 1 else name
            for pool, name in zip(pools, short, strict=True)
        ]
    )


def unique_names(proposed: Iterable[str]) -> list[str]:
    """Return the names of pools; a repeated name gets a number at its end, such as `a100-2`."""
    names: list[str] = []
    for name in proposed:
        unique, number = name, 2
        while unique in names:
            ending = f"-{number}"
            unique, number = f"{name[: POOL_NAME_LIMIT - len(ending)]}{ending}", number + 1
        names.append(unique)
    return names


def _product_slug(product: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", product.lower())
    return re.sub(r"^(nvidia|tesla)-", "", text)[:POOL_NAME_LIMIT].strip("-")


def _short_model(product: str) -> str:
    """Return the GPU model in a product name, such as `h100`; `gpu` if the model is unknown."""
    words = [word for word in _product_slug(product).split("-") if re.search(r"[0-9]", word)]
    return words[0] if words else _product_slug(product) or "gpu"


def by_selector(pool: ObservedPool, nodes: Iterable[ObservedNode]) -> dict[str, str]:
    """Return the node selector of a pool whose nodes a cloud creates; empty for other pools.

    The selector is the instance type, if all nodes of the pool and no other nodes have the type.

    Args:
        nodes: All nodes of the cluster.
    """
    kinds = {node.reported.get(INSTANCE_TYPE) for node in pool.nodes}
    (kind, *other_kinds) = kinds
    if other_kinds or not kind or not all(node.provider for node in pool.nodes):
        return {}
    same = [node for node in nodes if node.reported.get(INSTANCE_TYPE) == kind]
    return {INSTANCE_TYPE: kind} if len(same) == len(pool.nodes) else {}


def node_ranges(nodes: Iterable[ObservedNode]) -> list[str]:
    """Return the names of nodes, with consecutive names as ranges such as `gpu-[1-4]`."""
    return [*ranges(node.name for node in nodes)]
