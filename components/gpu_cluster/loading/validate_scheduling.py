"""Checks between the section `scheduling` and the rest of a stack file."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.names import NFD_PREFIX
from gpu_cluster.platforms.base import Trait
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.nodes.scheduling import NodeFeatures, SchedulingSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault, show


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults between the section `scheduling` and other sections."""
    scheduling = sections.section(SchedulingSettings)
    if scheduling is not None:
        yield from _check_node_names(scheduling, sections)
        yield from _by_rule(scheduling, sections)
        yield from _check_limits(scheduling, sections)


def _check_node_names(scheduling: SchedulingSettings, sections: ValidSections) -> Iterator[Fault]:
    nodes = {name for pool in sections.pools.values() for name in pool.node_names}
    for name in scheduling.nodes:
        if name not in nodes and sections.complete:
            yield fault(
                ("scheduling", "nodes", name),
                f"node {show(name)}, which no pool names",
                "a node of a pool that names its nodes",
                "add it to `nodes` of its pool, or take it out here",
            )


def _by_rule(scheduling: SchedulingSettings, sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for pool settings that a NodeFeatureRule can't express."""
    by_rule = scheduling.node_features is NodeFeatures.RULE
    for i, pool in sections.pools.items():
        strange = [key for key in pool.selector or {} if not key.startswith(NFD_PREFIX)]
        if by_rule and strange:
            yield fault(
                ("pools", i, "selector", strange[0]),
                f"the label {strange[0]} although scheduling.nodeFeatures is rule",
                f"labels of Node Feature Discovery ({NFD_PREFIX}…), which a rule can match",
                'select by such a label, or write "nodeFeatures: program"',
            )
        if by_rule and pool.selector:
            yield from _check_left_out_labels(i, pool)
        if by_rule and pool.selector and pool.startup_taint:
            yield fault(
                ("pools", i, "startupTaint"),
                "true although scheduling.nodeFeatures is rule",
                "a pool whose nodes this program taints itself: a rule taints them all the time",
                'remove it, or write "nodeFeatures: program" in scheduling',
            )


def _check_left_out_labels(i: int, pool: Pool) -> Iterator[Fault]:
    """Yield faults for labels and taints that Node Feature Discovery silently renames or drops."""
    for key in pool.labels:
        if not _is_reserved_label(key):
            yield _strange_rule_fault(("pools", i, "labels", key), f"the label {key}")
    for j, taint in enumerate(pool.taints):
        if not _is_reserved_label(taint.key):
            yield _strange_rule_fault(("pools", i, "taints", j, "key"), f"the taint {taint.key}")


def _is_reserved_label(key: str) -> bool:
    # Node Feature Discovery adds its own prefix to labels without a prefix. It rejects Kubernetes'
    # own prefixes, and taints without a prefix (node-feature-discovery v0.17.3 and v0.19.0,
    # pkg/apis/nfd/validate/validate.go; pkg/nfd-master/nfd-master.go, addNsToMapKeys).
    prefix, slash, _ = key.partition("/")
    is_of_nfd = f".{prefix}/".endswith(f".{NFD_PREFIX}")
    return bool(slash) and (is_of_nfd or not f".{prefix}".endswith(".kubernetes.io"))


def _strange_rule_fault(path: tuple[str | int, ...], setting: str) -> Fault:
    return fault(
        path,
        f"{setting} although scheduling.nodeFeatures is rule",
        "a key with a prefix that isn't Kubernetes' own (example.com/team), which a rule may set",
        'write "nodeFeatures: program" in scheduling, or choose a key such as example.com/team',
    )


def _check_limits(scheduling: SchedulingSettings, sections: ValidSections) -> Iterator[Fault]:
    if sections.platform is None or not scheduling.limits:
        return
    platform = named(sections.platform)
    if not platform.limit(1):
        yield fault(
            ("scheduling", "limits"),
            f"limits with platform {sections.platform}",
            platform.without_limits,
            "remove limits; a ResourceQuota can count claims",
        )
        return
    for i, limit in enumerate(scheduling.limits):
        if limit.max_cards % 1 and Trait.SHARES_CARDS not in platform.traits:
            yield fault(
                ("scheduling", "limits", i, "maxCards"),
                f"{limit.max_cards:g} with platform {sections.platform}",
                "whole cards: of the platforms with limits, only gpu-manager shares one",
                'write "maxCards: 1", or "platform: gpu-manager"',
            )
