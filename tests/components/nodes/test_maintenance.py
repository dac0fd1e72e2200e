"""Hosts and nodes in maintenance: valid names, and the parts of a run that skip them."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.commands.node_table import table
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.up import summary_of
from gpu_cluster.commands.validate import chosen
from gpu_cluster.desired.host import working
from gpu_cluster.desired.pool import Members
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts import recorded
from gpu_cluster.hosts.reboot.component import reboot_request
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.monitoring.values import _cluster_alerts
from gpu_cluster.nodes.inspect import pool_members
from gpu_rules.faults import ConfigError, FaultError
from tests.desired_host import rebooting
from tests.fixtures.clusters import HOST_KEY, cluster
from tests.mocks import Recorder, declare

HOSTS = [
    {"name": "rack-1", "node": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY},
    {"name": "rack-2", "node": "gpu-2", "address": "192.0.2.12", "hostKey": HOST_KEY},
]
SELECTED = [{"name": "l4", "selector": {"kind": "l4"}, "count": 3, "gpusPerNode": 4}]


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"kind": "l4"}}, "spec": {}, "status": {}}


def test_only_a_host_or_a_node_can_be_in_maintenance() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(hosts=HOSTS, maintenance=["gpu-[4-6]", "rack-1", "gpu-2", "gpu-x"])
    assert [str(fault) for fault in caught.value.faults] == [
        'maintenance[0]: found "gpu-5" and 1 more; wanted: names of hosts, or of nodes that a pool '
        "names; cure: correct the name, or take it out",
        'maintenance[3]: found "gpu-x"; wanted: names of hosts, or of nodes that a pool names; '
        "cure: correct the name, or take it out",
    ]
    with pytest.raises(ConfigError, match=r"maintenance.*\"gpu-2\" twice"):
        cluster(maintenance=["gpu-[1-3]", "gpu-2"])
    # A selector may find nodes of any name, and a node in maintenance may be missing.
    assert cluster(hosts=[], pools=SELECTED, maintenance=["any"]).nodes_in_maintenance == {"any"}


def test_a_host_that_is_refused_makes_no_other_name_wrong() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(hosts=[*HOSTS, {"name": "rack-3", "address": "?"}], maintenance=["rack-3"])
    assert "maintenance" not in str(caught.value)


def test_a_host_goes_with_its_node_and_a_node_with_its_host() -> None:
    for name in ("rack-1", "gpu-1"):
        made = cluster(hosts=HOSTS, maintenance=[name])
        assert made.nodes_in_maintenance == {"gpu-1"}
        assert [host.name for host in working(resolve(made, "dev").hosts)] == ["rack-2"]


def test_whoever_looks_or_acts_leaves_it_out() -> None:
    made = cluster(hosts=HOSTS, maintenance=["gpu-1"], monitoring={})
    asked = resolve(made, "test").question
    for pool in (*asked.scheduling, *asked.validation):
        assert pool.nodes == ("gpu-2", "gpu-3", "gpu-4")
        assert pool.maintenance == ("gpu-1",)
    assert [host.name for host in reboot_request(rebooting(made), "key").hosts] == ["rack-2"]
    assert resolve(made, "dev").rules.pools[0].nodes == 3
    desired = resolve(made, "dev")
    assert desired.monitoring is not None
    assert desired.monitoring.pools[0].gpus == 24
    alert = _cluster_alerts(desired.monitoring.pools, desired.platform)[0]
    assert alert["expr"].endswith("< 24")
    assert "gpu-1" not in alert["expr"]
    assert not resolve(cluster(), "test").scheduling.pools[0].maintenance


def test_a_selector_counts_a_node_in_maintenance_whether_it_is_there_or_not() -> None:
    pool = Members(context="c", pool="l4", selector={"kind": "l4"}, count=3, maintenance=("c",))
    there = [node(name) for name in "abc"]
    assert [node["metadata"]["name"] for node in pool_members(there, pool)] == ["a", "b"]
    assert len(pool_members(there[:2], pool)) == 2
    for wrong in (there[:1], [*there, node("d")], [node("a"), node("c")]):
        with pytest.raises(ClusterError, match="wanted: the 3 that `count` declares"):
            pool_members(wrong, pool)


def test_it_is_not_asked_to_be_validated() -> None:
    made = cluster(maintenance=["gpu-1"])
    with pytest.raises(FaultError, match="--nodes: found gpu-1, in maintenance"):
        chosen("gpu-[1-2]", made.pools, made.nodes_in_maintenance)


def test_each_table_and_the_last_line_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "cluster", cluster(maintenance=["gpu-[1-2]"]))
    shown = table(Stack("test"), [], {"gpu-1": node("gpu-1")})
    cells = [[str(cell) for cell in column.cells] for column in shown.columns[:3]]
    assert list(zip(*cells, strict=True)) == [
        ("gpu-1", "a100", "in maintenance"),
        ("gpu-2", "a100", "in maintenance, not in the cluster"),
    ]
    gpus = {"declared": 16, "computed": 16, "simulated": 0, "deferred": 0}
    assert summary_of(gpus, 2) == "16 of 16 GPUs computed, 2 nodes in maintenance"


class Recording(Recorder):
    """Recorder with a Pulumi state that has one prepared host."""

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token == recorded.OUTPUTS:
            return {"outputs": {"gpus": {}}}
        assert args.token == recorded.RESOURCES
        name = "gpu-cluster-host-preparation-rack-1"
        urn = f"urn:pulumi:test::gpu-cluster::a$b$command:remote:Command::{name}"
        return {"outputs": {urn: {}}}


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("preview", [False, True], ids=["up", "preview"])
def test_of_a_host_nothing_is_declared_that_the_state_does_not_hold(preview: bool) -> None:
    def program() -> None:
        key = pulumi.Output.secret("key")
        made = cluster(hosts=HOSTS, maintenance=["rack-[1-2]"])
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=made, private_key=key))

    recorder = declare(program, preview=preview, recorder=Recording())
    remote = [item.name for item in recorder.resources if item.token.startswith("command:remote:")]
    assert remote == ["gpu-cluster-host-preparation-rack-1"]
