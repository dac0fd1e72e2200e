"""Arguments of `kubeadm upgrade` on each host of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpu_cluster.hosts.phases import preparation_seconds
from gpu_cluster.hosts.steps.kubernetes import APPLY_LIMIT, NODE_LIMIT, upgrade_settings
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from tests.desired_host import desired_host
from tests.fixtures.clusters import HOST_KEY
from tests.fixtures.documents import stack_document

INIT = {"endpoint": "192.0.2.1:6443", "network": {"manifest": "cni.yaml"}}
ALL = ("cp-1", "gpu-1")


def made(
    first: str = "control-plane",
    nodes: tuple[str, ...] = ("gpu-1",),
    version: str = "1.34.4",
    taints: Sequence[str] = ("nvidia.com/gpu=present:NoSchedule",),
    **init: Any,
) -> Cluster:
    roles = {"cp-1": first, "gpu-1": "gpu-worker"}
    return load(
        stack_document(
            context="here",
            pools=[{"name": "a", "nodes": list(nodes), "gpusPerNode": 8, "taints": taints}],
            hosts=[
                {"name": name, "role": role, "address": f"192.0.2.{n}", "hostKey": HOST_KEY}
                for n, (name, role) in enumerate(roles.items(), 1)
            ],
            kubernetesPackages={"version": version, "init": {**INIT, **init}},
        )
    )


def settings(cluster: Cluster, host: int = 0) -> dict[str, str]:
    return upgrade_settings(desired_host(cluster, host))


def test_one_host_upgrades_the_control_plane_and_the_others_follow() -> None:
    cluster = made()
    assert settings(cluster)["GC_UPGRADE"] == "apply"
    assert settings(cluster, 1)["GC_UPGRADE"] == "node"
    first, second = (preparation_seconds(desired_host(cluster, host)) for host in cluster.hosts)
    assert first - second == APPLY_LIMIT - NODE_LIMIT


def test_nothing_is_upgraded_of_a_control_plane_that_somebody_else_made() -> None:
    packages = {"version": "1.34.4", "join": {"endpoint": "192.0.2.9:6443", "caCertHashes": ["x"]}}
    packages["join"]["caCertHashes"] = [f"sha256:{'0' * 64}"]
    document = made().model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    cluster = load({**document, "kubernetesPackages": packages})
    assert settings(cluster) == {}
    assert settings(cluster, 1)["GC_UPGRADE"] == "node"
    without = load({**document, "kubernetesPackages": {"version": "1.34.4"}})
    assert (settings(without), settings(without, 1)) == ({}, {})


def test_only_addons_are_left_out_of_an_upgrade_as_of_init() -> None:
    cluster = made(skipPhases=["addon/kube-proxy", "mark-control-plane", "preflight"])
    assert settings(cluster)["GC_UPGRADE_SKIPPED"] == "addon/kube-proxy"
    assert settings(cluster, 1)["GC_UPGRADE_SKIPPED"] == ""
    # `kubeadm upgrade` of 1.31 has no phases; it skips addons that aren't installed.
    older = made(version="1.31.9", skipPhases=["addon/kube-proxy"])
    assert settings(older)["GC_UPGRADE_SKIPPED"] == ""


@pytest.mark.parametrize(
    ("declared", "ignored"),
    [
        ({}, ""),
        ({"nodeRegistration": {"ignorePreflightErrors": ["Swap", "Mem"]}}, "Swap,Mem"),
        (
            {"first": "gpu-control-plane", "nodes": ALL, "skipPhases": ["addon/coredns"]},
            "CreateJob,CoreDNSUnsupportedPlugins,CoreDNSMigration",
        ),
        ({"first": "gpu-control-plane", "nodes": ALL, "taints": []}, ""),
        ({"skipPhases": ["addon/coredns"]}, "CoreDNSUnsupportedPlugins,CoreDNSMigration"),
        (
            {"clusterConfiguration": {"dns": {"disabled": True}}},
            "CoreDNSUnsupportedPlugins,CoreDNSMigration",
        ),
        (
            {
                "first": "gpu-control-plane",
                "nodes": ALL,
                "taints": [],
                "nodeRegistration": {"ignorePreflightErrors": ["All"]},
            },
            "All",
        ),
    ],
)
def test_a_check_is_ignored_only_where_it_is_declared_or_cannot_pass(
    declared: dict[str, Any], ignored: str
) -> None:
    assert settings(made(**declared))["GC_UPGRADE_IGNORED"] == ignored
