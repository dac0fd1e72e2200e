"""Advice: what is allowed, and will probably not do what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.hosts.settings.runtime import DefaultRuntime
from components.nodes.settings.taint import GPU_TAINT, GPU_TAINT_VALUE
from components.platforms.device_plugin.flags import CDI
from components.platforms.device_plugin.settings import Presence
from components.platforms.settings import Platform
from config.problem import Problem, problem

if TYPE_CHECKING:
    from components.settings.cluster import Cluster


def advice(cluster: Cluster) -> Iterator[Problem]:
    """Every piece of advice, in the order of the document."""
    yield from _taint_values(cluster)
    yield from _host_keys(cluster)
    yield from _runtime(cluster)


def _taint_values(cluster: Cluster) -> Iterator[Problem]:
    """The chart's NFD is there for `presence: nfd` only; the operator's tolerates any value."""
    if (
        cluster.platform is not Platform.DEVICE_PLUGIN
        or cluster.device_plugin.presence is not Presence.NFD
    ):
        return
    for i, pool in enumerate(cluster.pools):
        for j, taint in enumerate(pool.taints):
            if taint.key == GPU_TAINT.key and taint.value != GPU_TAINT_VALUE:
                yield problem(
                    ("pools", i, "taints", j),
                    str(taint),
                    f"the value {GPU_TAINT_VALUE}: the chart's node-feature-discovery worker"
                    " tolerates no other, and does not run on the pool's nodes",
                    f"write {GPU_TAINT.key}={GPU_TAINT_VALUE}:{taint.effect}",
                )


def _host_keys(cluster: Cluster) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for i, host in enumerate(cluster.hosts):
        location = ("hosts", i, "hostKey")
        if host.host_key.startswith("ssh-rsa "):
            yield problem(
                location,
                "a key of type ssh-rsa",
                "a key of type ssh-ed25519: a client that pins an RSA key offers SHA-1"
                " signatures only, which current SSH servers refuse",
                "take /etc/ssh/ssh_host_ed25519_key.pub",
            )
        other = first.setdefault(host.host_key, host.name)
        if other != host.name:
            yield problem(
                location,
                f"the same key as host {other}",
                "a key of its own on each host; machines copied from one image share theirs",
                "make new keys with `ssh-keygen -A` after removing the copied ones",
            )


def _runtime(cluster: Cluster) -> Iterator[Problem]:
    if cluster.platform is not Platform.DEVICE_PLUGIN:
        return
    strategies = cluster.device_plugin.config.flags.plugin.device_list_strategy
    by_cdi = [strategy for strategy in strategies if strategy in CDI]
    if by_cdi and not cluster.runtime.cdi:
        yield problem(
            ("runtime", "cdi"),
            f"false, with deviceListStrategy {by_cdi[0]}",
            "CDI in the container runtime",
            'write "cdi: true"',
        )
    if by_cdi and cluster.runtime.default_runtime is DefaultRuntime.NVIDIA:
        yield problem(
            ("runtime", "defaultRuntime"),
            f"nvidia, with deviceListStrategy {by_cdi[0]}",
            "runc: with CDI the engine itself hands devices to containers",
            'write "defaultRuntime: runc"',
        )
