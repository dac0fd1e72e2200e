"""Precedence of settings: a host's section replaces its pool's, which replaces the stack's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.command import connection
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.loading.inventory import origins
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.hosts.system import Firewall, Selinux
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_rules.faults import ConfigError
from tests.desired_host import desired_host
from tests.fixtures.documents import stack_document

BASTION = {"address": "192.0.2.10", "hostKey": simulated.host_public_key("bastion")}


def document(**sections: Any) -> dict[str, Any]:
    hosts = {"gpu-1": {}, "gpu-2": {}, "gpu-3": {}, "cp-1": {"role": "control-plane"}}
    return (
        stack_document(
            context="test",
            pools=[
                {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8},
                {"name": "l4", "nodes": ["gpu-3"], "gpusPerNode": 4},
            ],
            hosts=[
                {
                    "name": name,
                    "address": f"192.0.2.{number}",
                    "hostKey": simulated.host_public_key(name),
                    **more,
                }
                for number, (name, more) in enumerate(hosts.items(), start=20)
            ],
        )
        | sections
    )


def seen(declared: dict[str, Any]) -> dict[str, DesiredHost]:
    return {host.name: host for host in resolve(load(declared), "dev").hosts}


def test_a_host_overrides_its_pool_and_a_pool_the_stack() -> None:
    declared = document(driver={"version": "595.91.07"}, system={"selinux": "permissive"})
    declared["pools"][0]["driver"] = {"version": "580.65.06"}
    declared["pools"][0]["system"] = {"firewall": "rules"}
    declared["hosts"][0]["driver"] = {"version": "570.124.06"}
    declared["hosts"][0]["system"] = {"sysctl": {"vm.max_map_count": "262144"}}
    values = seen(declared)
    versions = {name: host.sections.driver.version for name, host in values.items()}
    assert versions == {
        "gpu-1": "570.124.06",
        "gpu-2": "580.65.06",
        "gpu-3": "595.91.07",
        "cp-1": "595.91.07",
    }
    first, third = (values[name].sections.system for name in ("gpu-1", "gpu-3"))
    assert (first.selinux, first.firewall) == (Selinux.PERMISSIVE, Firewall.RULES)
    assert first.sysctl == {"vm.max_map_count": "262144"}
    assert (third.firewall, third.sysctl) == (Firewall.LEAVE, {})


def test_each_overridden_value_says_where_it_comes_from() -> None:
    declared = document(driver={"version": "595.91.07"})
    declared["pools"][0]["driver"] = {"version": "580.65.06"}
    declared["pools"][0]["ssh"] = {"user": "ubuntu"}
    declared["hosts"][0]["driver"] = {"version": "570.124.06"}
    assert origins(declared) == {
        "gpu-1": {
            "driver.version = 570.124.06": "host gpu-1",
            "ssh.user = ubuntu": "pool a100",
        },
        "gpu-2": {"driver.version = 580.65.06": "pool a100", "ssh.user = ubuntu": "pool a100"},
    }


def test_a_bastion_is_the_hosts_own_its_pools_or_the_stacks() -> None:
    other = {**BASTION, "address": "192.0.2.11"}
    declared = document(ssh={"bastion": BASTION, "user": "admin", "port": 2222})
    declared["pools"][0]["ssh"] = {"bastion": other}
    declared["hosts"][1]["bastion"] = None
    cluster = load(declared)
    reached = {host.name: host.bastion and host.bastion.address for host in cluster.hosts}
    assert reached == {
        "gpu-1": "192.0.2.11",
        "gpu-2": None,
        "gpu-3": "192.0.2.10",
        "cp-1": "192.0.2.10",
    }
    assert {(host.user, host.port) for host in cluster.hosts} == {("admin", 2222)}

    async def through() -> list[bool]:
        """Create the arguments inside an event loop, because they contain Pulumi Outputs."""
        reached = [connection(host, "key") for host in resolve(cluster, "dev").hosts]
        return [arguments.proxy is not None for arguments in reached]

    assert asyncio.run(through()) == [True, False, True, True]


def test_a_mistake_of_the_stack_is_told_once_and_one_of_a_host_at_the_host() -> None:
    declared = document(driver={"version": "new"})
    declared["pools"][0]["driver"] = {"source": "preinstalled"}
    declared["hosts"][0]["system"] = {"firewall": "off"}
    with pytest.raises(ConfigError) as raised:
        load(declared)
    paths = [problem.place for problem in raised.value.faults]
    assert paths == ["hosts[0].system.firewall", "driver.version"]


def test_a_host_without_gpus_gets_no_gpu_step_and_the_ports_of_its_role() -> None:
    cluster = load(document(system={"firewall": "rules"}))
    scripts = {host.name: prepare_script(desired_host(cluster, host)) for host in cluster.hosts}
    assert "GC_BLACKLIST=" in scripts["gpu-1"]
    assert "GC_BLACKLIST=" not in scripts["cp-1"]
    assert "6443/tcp" in scripts["cp-1"]
    assert "6443/tcp" not in scripts["gpu-1"]


def test_a_limit_that_locks_everybody_out_is_refused() -> None:
    with pytest.raises(ConfigError, match="nofile"):
        load(document(system={"limits": {"nofile": -1}}))
