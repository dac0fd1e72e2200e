"""Unit tests of the rollout plan: affected hosts, their order, and the preview text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import disruption
from gpu_cluster.hosts.disruption import StepChange
from gpu_cluster.hosts.phases import preparation_disrupts as of_preparation
from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.hosts.phases import runtime_disrupts as of_runtime
from gpu_cluster.nodes.static_pods import StaticPods
from gpu_cluster.rollout.component import RolloutArgs, rollout_request
from gpu_cluster.rollout.operands import is_operand
from gpu_cluster.rollout.pending import changes
from gpu_cluster.rollout.plan import Change, Plan, View, blockers, plan, waves, words
from gpu_cluster.rollout.skew import ControlPlane
from gpu_cluster.settings.cluster import Cluster
from tests.desired_host import desired_host
from tests.fixtures.clusters import HOST_KEY, cluster

DRIVER = {"source": "package"}
MEMBERS = ("cp-1", "cp-2", "cp-3")
INIT = {
    "version": "1.34.4",
    "init": {"endpoint": "192.0.2.100:6443", "network": {"manifest": "cni.yaml"}},
}


def made(**more: Any) -> Cluster:
    hosts = [
        {"name": f"gpu-{n}", "address": f"192.0.2.{n}", "hostKey": HOST_KEY} for n in (1, 2, 3, 4)
    ]
    return cluster(hosts=more.pop("hosts", hosts), **more)


def applied(declared: Cluster, **more: HostFacts) -> dict[str, HostFacts]:
    """Return the facts of hosts on which the whole configuration is applied."""
    facts = {
        host.name: HostFacts(
            disrupts={
                "prepare": of_preparation(desired_host(declared, host)),
                "runtime": of_runtime(desired_host(declared, host)),
            }
        )
        for host in declared.hosts
    }
    return {**facts, **more}


def view(**more: Any) -> View:
    return View(**more)


def of_kernel(release: str) -> str:
    """Return the settings of a host with this kernel whose change disrupts pods."""
    declared = made(kernel={"release": release})
    return of_preparation(desired_host(declared, declared.hosts[0]))


def of_driver(version: str) -> str:
    """Return the settings of a host with this driver whose change disrupts pods."""
    declared = made(driver={**DRIVER, "version": version})
    return of_preparation(desired_host(declared, declared.hosts[0]))


def test_a_script_and_the_plan_have_the_same_lines() -> None:
    declared = made(kubernetesPackages={"version": "1.34.4"}, kernel={"release": "6.1.0-44-amd64"})
    host = declared.hosts[0]
    for script, lines in (
        (
            prepare_script(desired_host(declared, host)),
            of_preparation(desired_host(declared, host)),
        ),
        (runtime_script(desired_host(declared, host)), of_runtime(desired_host(declared, host))),
    ):
        assert f"{disruption.SETTING}={lines!r}".replace("\\n", "\n") in script
    assert disruption.steps(of_preparation(desired_host(declared, host))) == {
        "kernel": ("6.1.0-44-amd64", "kernel"),
        "kubernetes": ("kubelet=1.34.4",),
    }


def test_no_host_is_rolled_that_no_line_changes() -> None:
    before = made(kubernetesPackages={"version": "1.34.4"})
    facts = applied(before)
    assert changes(resolve(before, "dev").hosts, facts) == ()
    # Limits, kernel parameters and the URL of a repository disrupt no pod.
    after = made(
        kubernetesPackages={"version": "1.34.4"}, system={"sysctl": {"vm.swappiness": "1"}}
    )
    assert changes(resolve(after, "dev").hosts, facts) == ()


def test_a_changed_version_is_worded_before_and_after() -> None:
    facts = applied(made(kubernetesPackages={"version": "1.33.5"}))
    found = changes(resolve(made(kubernetesPackages={"version": "1.34.4"}), "dev").hosts, facts)
    assert [change.host.name for change in found] == ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    assert found[0].text == "kubernetes kubelet=1.33.5 → kubelet=1.34.4"
    gone = changes(resolve(made(), "dev").hosts, facts)
    assert gone[0].text == "kubernetes kubelet=1.33.5 → none"


def test_only_the_host_is_rolled_whose_line_changes() -> None:
    before = made()
    hosts = [dict(host) for host in before.model_dump(mode="json", include={"hosts"})["hosts"]]
    named = [{"name": h["name"], "address": h["address"], "hostKey": h["host_key"]} for h in hosts]
    named[2]["runtime"] = {"systemdCgroup": False}
    found = changes(resolve(made(hosts=named), "dev").hosts, applied(before))
    assert [change.host.name for change in found] == ["gpu-3"]


def test_another_engine_is_not_rolled() -> None:
    found = changes(resolve(made(runtime={"engine": "cri-o"}), "dev").hosts, applied(made()))
    assert found == ()


def test_an_interrupted_change_is_rolled_whatever_is_declared_now() -> None:
    facts = applied(made(), **{"gpu-2": HostFacts(disrupts={"prepare": "unfinished"})})
    (change,) = (c for c in changes(resolve(made(), "dev").hosts, facts) if c.host.name == "gpu-2")
    assert change.text.startswith("unfinished change to nothing; ")


def test_a_host_that_does_not_answer_is_rolled_only_if_its_node_was_left_cordoned() -> None:
    facts = applied(made(), **{"gpu-2": HostFacts(error="no answer within 10 s")})
    assert (
        changes(resolve(made(kubernetesPackages={"version": "1.34.4"}), "dev").hosts, facts)[
            1
        ].host.name
        == "gpu-3"
    )
    (change,) = changes(resolve(made(), "dev").hosts, facts, frozenset({"gpu-2"}))
    assert (change.host.name, change.first) == ("gpu-2", False)


def test_a_host_of_which_a_killed_first_run_applied_one_phase_is_as_new_as_others() -> None:
    declared = made()
    prepared = HostFacts(disrupts={"prepare": of_preparation(desired_host(declared))})
    facts = {host.name: HostFacts() for host in declared.hosts} | {"gpu-1": prepared}
    found = changes(resolve(declared, "dev").hosts, facts)
    assert {change.first for change in found} == {True}
    idle = {host.node: view() for host in declared.hosts}
    assert plan(found, idle).changes == ()
    busy = idle | {"gpu-1": view(evicts={"team-a/Deployment web": 1})}
    assert [change.host.name for change in plan(found, busy).changes] == ["gpu-1"]


def test_a_runtime_that_is_no_longer_declared_is_undone_in_the_plan() -> None:
    operator = resolve(made(platform="gpu-operator", gpuOperator={"toolkit": True}), "dev")
    assert not operator.hosts[0].configures_runtime
    found = changes(operator.hosts, applied(made()))
    assert [(change.host.name, change.undoes_runtime) for change in found] == [
        (host.name, True) for host in operator.hosts
    ]
    assert found[0].text.endswith("→ none")
    args = RolloutArgs(
        rollout=operator.rollout,
        has_hosts=True,
        operands=operator.operands,
        pools=operator.validation.pools,
        layouts=operator.layouts,
        private_key="key",
        plan=Plan(changes=found),
    )
    host = rollout_request(args, "key").hosts[0]
    assert (host.undoes_runtime, host.pool) == (True, "")
    assert host.runtime is not None
    assert "GC_PHASE=runtime" in host.runtime.script
    assert host.runtime.lines["undo"].endswith("sh -s -- undo")
    gone = {name: replace(facts, disrupts={"prepare": facts.disrupts["prepare"]})
            for name, facts in applied(made()).items()}  # fmt: skip
    assert changes(operator.hosts, gone) == ()


@pytest.mark.parametrize(
    ("component", "kind", "taken"),
    [
        ("hami-device-plugin", "DaemonSet", True),
        ("hami-scheduler", "ReplicaSet", False),
    ],
)
def test_a_wave_takes_hamis_plugin_off_its_nodes_and_not_its_scheduler(
    component: str, kind: str, *, taken: bool
) -> None:
    pod = {
        "metadata": {
            "name": component,
            "namespace": "hami",
            "labels": {"app.kubernetes.io/component": component},
            "ownerReferences": [{"kind": kind, "name": component, "controller": True}],
        },
        "spec": {"containers": [{"name": "main"}]},
    }
    assert is_operand(pod, resolve(made(platform="hami"), "dev").operands) is taken


def kubelet_change(old: str, new: str) -> StepChange:
    return StepChange("kubernetes", (f"kubelet={old}",), (f"kubelet={new}",))


def rolled(views: dict[str, View], *, first: bool = False, **more: Any) -> Plan:
    found = [
        Change(host, (StepChange("driver", ("a",), ("b",)),), first)
        for host in resolve(made(**more), "dev").hosts
    ]
    return plan(found, views, 2)


def test_a_new_host_is_rolled_only_where_pods_run() -> None:
    views = {"gpu-1": view(evicts={"team/Job train": 1}), "gpu-2": view(), "gpu-3": view()}
    assert [change.host.name for change in rolled(views, first=True).changes] == ["gpu-1"]


def test_what_others_work_on_is_left_alone_and_named() -> None:
    why = "cordoned, not by this program"
    result = rolled({"gpu-1": view(left=why), "gpu-2": view(), "gpu-3": view()})
    assert result.left == {"gpu-1": why}
    assert f"host gpu-1 left alone: {why}" in list(words(result))
    assert waves(result) == [["gpu-2"], ["gpu-3"]]


def test_control_plane_one_by_one_then_what_was_begun_then_a_canary() -> None:
    hosts = [
        {"name": "gpu-1", "address": "192.0.2.1", "hostKey": HOST_KEY},
        {"name": "gpu-2", "address": "192.0.2.2", "hostKey": HOST_KEY},
        {"name": "gpu-3", "address": "192.0.2.3", "hostKey": HOST_KEY},
        *(
            {"name": f"cp-{n}", "role": "control-plane", "address": f"192.0.2.1{n}",
             "hostKey": HOST_KEY}
            for n in (1, 2)
        ),
    ]  # fmt: skip
    names = ("gpu-1", "gpu-2", "gpu-3", "cp-1", "cp-2")
    views = {name: view(begun=name == "gpu-2") for name in names}
    assert waves(rolled(views, hosts=hosts)) == [["cp-1"], ["cp-2"], ["gpu-2"], ["gpu-1", "gpu-3"]]


def test_the_preview_names_waves_pods_owners_and_budgets() -> None:
    views = {f"gpu-{n}": view() for n in (1, 2, 3, 4)}
    views["gpu-2"] = view(
        evicts={"a/Deployment web": 3, "b/Job train": 1}, budgets=("a/web",), lost="pods: a/x"
    )
    views["gpu-3"] = view(daemons={"monitoring/DaemonSet exporter": 1})
    result = rolled(views)
    assert list(words(result)) == [
        "4 nodes changed in waves, 4 pods evicted; all of it is fetched before the first node is "
        "touched",
        "wave 1: gpu-1",
        "wave 2 (at most 2 at once): gpu-2, gpu-3, gpu-4",
        "node gpu-1: driver a → b",
        "node gpu-2: driver a → b",
        "node gpu-2: evicts 3 of a/Deployment web, 1 of b/Job train",
        "node gpu-2: waits while PodDisruptionBudgets allow no disruption: a/web",
        "node gpu-3: driver a → b",
        "node gpu-3: stops pods with GPUs, 1 of monitoring/DaemonSet exporter",
        "node gpu-4: driver a → b",
    ]
    assert list(blockers(result)) == [
        "rollout: node gpu-2: found pods: a/x; wanted: no pod that loses data or isn't created "
        "again, unless you accept it; cure: delete these pods yourself, or let the run delete "
        "them: in rollout.evict of the stack file, write unmanaged for pods that nothing creates "
        "again, and empty-dir for pods that lose their emptyDir volumes"
    ]


@pytest.mark.parametrize(
    ("declared", "seen", "told"),
    [
        (
            {"kernel": {"release": "6.1.0-2-amd64"}},
            HostFacts(disrupts={"prepare": of_kernel("6.1.0-1-amd64")}),
            "another kernel",
        ),
        (
            {"driver": {**DRIVER, "version": "595.91.07"}},
            HostFacts(disrupts={"prepare": of_driver("580.95.05")}, driver="580.95.05"),
            "driver 580.95.05 loaded, which packages of 595.91.07 do not unload",
        ),
        (
            {"kubernetesPackages": {"version": "1.34.4"}},
            HostFacts(reboot=("driver 580.95.05 is loaded, 595.91.07 is installed",)),
            "a reboot pending (driver 580.95.05 is loaded, 595.91.07 is installed)",
        ),
    ],
)
def test_a_change_that_needs_a_boot_without_leave_is_refused_before_anything_is_touched(
    declared: dict[str, Any], seen: HostFacts, told: str
) -> None:
    after = made(**declared)
    (change,) = changes(resolve(after, "dev").hosts[:1], {"gpu-1": seen})
    views = {"gpu-1": view(evicts={"team-a/Job train": 1})}
    assert list(blockers(plan([change], views, may_boot=True))) == []
    assert list(blockers(plan([change], views, may_boot=False))) == [
        f"rollout: host gpu-1: found {told}, but no permission to reboot; "
        "declare reboot.when: required"
    ]


def test_a_driver_change_that_needs_no_boot_is_not_refused() -> None:
    hosts = resolve(made(driver={**DRIVER, "version": "595.91.07"}), "dev").hosts[:1]
    for seen in (
        HostFacts(disrupts={"prepare": of_driver("580.95.05")}),
        HostFacts(disrupts={"prepare": of_driver("580.95.05")}, driver="595.91.07"),
    ):
        assert list(blockers(plan(changes(hosts, {"gpu-1": seen}), {}, may_boot=False))) == []


@pytest.mark.parametrize(
    ("old", "new", "server", "told"),
    [
        ("1.33.5", "1.34.4", "v1.34.4", ""),
        ("1.34.1", "1.34.4", "v1.34.1", ""),
        ("1.32.9", "1.34.4", "v1.34.4", "one minor version forward at a time"),
        ("1.34.4", "1.33.5", "v1.34.4", "one minor version forward at a time"),
        ("1.33.5", "1.34.4", "v1.33.5", "run kubeadm upgrade on it first"),
        ("1.33.5", "1.34.4", "", ""),
    ],
)
def test_kubelet_goes_one_minor_version_at_a_time_and_after_the_api_server(
    old: str, new: str, server: str, told: str
) -> None:
    (host, *_) = resolve(made(), "dev").hosts
    change = Change(host, (kubelet_change(old, new),))
    refusal = Plan((change,), server=server).refusal(change)
    assert told in refusal
    assert bool(refusal) == bool(told)


def upgrading(
    server: str,
    step: StepChange | None = None,
    left: str = "",
    version: str = "1.34.4",
    members: tuple[str, ...] = ("cp-1",),
    static_pods: StaticPods | None = None,
) -> Plan:
    """Return the plan for control planes that the stack created, and a worker."""
    hosts = [
        {"name": name, "role": role, "address": f"192.0.2.{number}", "hostKey": HOST_KEY}
        for number, (name, role) in enumerate(
            {"gpu-1": "gpu-worker", **dict.fromkeys(members, "control-plane")}.items(), 1
        )
    ]
    found = [
        Change(each, (step or kubelet_change("1.33.5", "1.34.4"),))
        for each in resolve(made(hosts=hosts, kubernetesPackages=INIT), "dev").hosts
    ]
    views = {name: view(left=left if name == "cp-1" else "") for name in ("gpu-1", *members)}
    plane = ControlPlane({name: name for name in members}, version)
    return plan(found, views, server=server, control_plane=plane, static_pods=static_pods)


def test_a_control_plane_that_the_stack_made_is_upgraded_before_its_workers() -> None:
    result = upgrading("v1.33.5")
    assert list(blockers(result)) == []
    assert list(words(result))[1:4] == [
        "wave 1: cp-1",
        "wave 2: gpu-1",
        "control plane 1.33.5 → 1.34.4 by kubeadm upgrade on host cp-1, before its node is drained",
    ]


@pytest.mark.parametrize("server", ["v1.34.4", "v1.35.0", ""])
def test_a_control_plane_that_is_new_enough_or_unseen_is_not_named(server: str) -> None:
    result = upgrading(server)
    assert list(blockers(result)) == []
    assert not [line for line in words(result) if "kubeadm" in line]


def test_control_planes_of_one_cluster_are_upgraded_one_after_the_other() -> None:
    result = upgrading("v1.33.5", members=MEMBERS)
    assert list(blockers(result)) == []
    assert list(words(result))[5] == (
        "control plane 1.33.5 → 1.34.4 by kubeadm upgrade on hosts cp-1, cp-2, cp-3, one after "
        "the other, before any node is drained"
    )


def test_an_upgrade_that_was_interrupted_between_two_control_planes_goes_on() -> None:
    """Whichever API server answers, the other ones count, too."""
    servers = {"cp-1": "1.34.4", "cp-2": "1.33.5", "cp-3": "1.33.5"}
    result = upgrading("v1.34.4", members=MEMBERS, static_pods=StaticPods(servers))
    result = replace(result, changes=result.changes[1:])
    assert [change.host.name for change in result.changes] == ["cp-2", "cp-3", "gpu-1"]
    assert list(blockers(result)) == []
    assert "by kubeadm upgrade on hosts cp-2, cp-3, one after" in "\n".join(words(result))


@pytest.mark.parametrize("version", ["1.34.4", "1.33.9"])
def test_no_control_plane_is_upgraded_without_all_others_that_are_older(version: str) -> None:
    result = upgrading(
        "v1.33.5", kubelet_change("1.33.5", version), "cordoned", version, members=MEMBERS
    )
    second, third, *_ = blockers(result)
    assert "host cp-2: found a control plane v1.33.5 on cp-1, which this run" in second
    assert "host cp-3: " in third
    assert "run `up` when host cp-1, which upgrades it, can be changed, too" in third


@pytest.mark.parametrize(
    ("down", "first", "refused"),
    [
        ({}, "1.33.5", False),
        ({"etcd-cp-2": "cp-2"}, "1.33.5", True),
        # A change that was killed may have left its host's pods down; the run mends them first.
        ({"etcd-cp-1": "cp-1"}, "1.33.5", False),
        ({"etcd-cp-2": "cp-2", "kube-apiserver-cp-2": "cp-2"}, "1.34.4", False),
        ({"etcd-cp-2": "cp-2", "kube-apiserver-cp-3": "cp-3"}, "1.34.4", True),
        ({"etcd-cp-4": "cp-4"}, "1.34.4", True),
    ],
)
def test_no_upgrade_begins_while_a_control_plane_is_down(
    down: dict[str, str], first: str, refused: bool
) -> None:
    pods = StaticPods({"cp-1": first, "cp-2": "1.33.5", "cp-3": "1.33.5"}, down)
    found = list(blockers(upgrading("v1.33.5", members=MEMBERS, static_pods=pods)))
    assert bool(found) is refused
    assert not refused or all(name in found[0] for name in down)
    workers = upgrading("v1.34.4", members=MEMBERS, static_pods=pods)
    workers = replace(workers, changes=workers.changes[3:])
    assert not any("control plane:" in text for text in blockers(workers))


def test_workers_wait_for_a_control_plane_whose_host_is_left_alone() -> None:
    (text,) = blockers(upgrading("v1.33.5", left="cordoned, not by this program"))
    assert "host gpu-1: found an API server v1.33.5 and kubelet 1.34.4" in text
    assert "run `up` when host cp-1, which upgrades it, can be changed, too" in text


def test_an_unfinished_upgrade_skips_no_minor_version_either() -> None:
    unfinished = StepChange(disruption.UNFINISHED, now=("kubernetes",))
    (text,) = blockers(upgrading("v1.33.5", step=unfinished, version="1.35.0"))
    assert "host cp-1: found an API server v1.33.5 → 1.35.0; wanted one minor version" in text
    assert list(blockers(upgrading("v1.34.4", step=unfinished, version="1.35.0"))) == []
