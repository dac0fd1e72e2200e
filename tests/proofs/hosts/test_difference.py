"""An inspection over SSH distinguishes edits of the stack file from changes on a host (drift)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.findings import Findings, Kind
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import compare, desired_phases
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator.hosts import namespaced
from tests.findings import found
from tests.proofs.hosts.machine import Running, differences, start, temporary_cluster

Json = dict[str, Any]
HELD = "/var/lib/gpu-cluster"
DRIFTED = ("as applied", "another content")

pytestmark = pytest.mark.slow


class Applied:
    """Host on which all phases of a configuration were applied."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.before = running.tree()
        self.apply()
        self.facts = self.look()

    def declared(self, **changes: Any) -> Cluster:
        ours = self.running.declared
        host = {
            "name": ours.name,
            "address": ours.address,
            "port": ours.port,
            "hostKey": ours.host_key,
        }
        return load(
            {
                "version": "v1",
                "kubernetes": {"context": "c"},
                "platform": "device-plugin",
                "pools": [{"name": "a100", "nodes": [ours.name], "gpusPerNode": 8}],
                "hosts": [host],
                **changes,
            }
        )

    def desired(self, **changes: Any) -> tuple[DesiredHost, ...]:
        return resolve(self.declared(**changes), "test").hosts

    def apply(self, **changes: Any) -> None:
        """Run the scripts of all phases of the configuration on the host, as `pulumi up` does."""
        for declaration in desired_phases(self.desired(**changes)[0], None).values():
            if declaration is not None:
                done = self.running.apply(declaration)
                assert done.status == 0, done.errors

    def look(self) -> HostFacts:
        ours = self.running.declared
        facts: HostFacts = asyncio.run(observe_hosts([ours], self.running.key, 20))[ours.name]
        assert facts.error == ""
        return facts

    def findings(self, facts: HostFacts, **changes: Any) -> Findings:
        return compare(self.desired(**changes), None, {"gpu-1": facts}).findings


@pytest.fixture(scope="module")
def applied() -> Iterator[Applied]:
    with temporary_cluster() as name:
        if reason := namespaced.reason_against(name):
            pytest.skip(f"hosts in namespaces: {reason}")
        yield Applied(start(name, "gpu-1", mode="namespaces")[0])


def changed(what: str, was: str = "", now: str = "") -> Any:
    return found(f"change: host gpu-1: {what}", was, now)


def drifted(what: str, was: str = "as applied", now: str = "changed") -> Any:
    return found(f"drift: host gpu-1: {what}", was, now)


EDITS: dict[str, tuple[Json, list[Any]]] = {
    "a module more": (
        {"system": {"modules": ["overlay", "br_netfilter", "nf_conntrack"]}},
        [changed("modules", "overlay br_netfilter", "overlay br_netfilter nf_conntrack")],
    ),
    "swap stays on": (
        {"system": {"swapOff": False}},
        [changed("step swap", "applied", "not declared")],
    ),
    "a kernel parameter": (
        {"system": {"sysctl": {"vm.max_map_count": "262144"}}},
        [changed("system.sysctl[vm.max_map_count]", "", "262144")],
    ),
    "limits": (
        {"system": {"limits": {"nofile": 65536}}},
        [changed("step limits", "", "applied"), changed("limits text", "", "…")],
    ),
    "open ports": (
        {"system": {"firewall": "rules"}},
        [
            changed("step firewall", "", "applied"),
            changed("firewall", "", "rules"),
            changed("ports", "", "10250/tcp 10256/tcp 30000-32767/tcp 30000-32767/udp"),
        ],
    ),
    "a package": (
        {"packages": {"install": ["pciutils"]}},
        [
            changed("step packages", "", "applied"),
            changed("packages", "", "pciutils"),
            changed("headers", "", "false"),
        ],
    ),
    "a mode of CDI": ({"runtime": {"cdi": False}}, [changed("cdi", "true", "false")]),
    "another default runtime": (
        {"runtime": {"defaultRuntime": "runc"}},
        [changed("default runtime", "nvidia", "runc")],
    ),
    "another platform, which configures the engine itself": (
        {"platform": "gpu-operator", "gpuOperator": {"toolkit": True}},
        [changed("container runtime", "applied", "not declared")],
    ),
}


@pytest.mark.promise("What a person edits of a host is called a change, with what it was and is.")
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_a_host_is_a_change_and_no_drift(applied: Applied, name: str) -> None:
    edit, expected = EDITS[name]
    assert applied.findings(applied.facts) == ()
    findings = applied.findings(applied.facts, **edit)
    assert [(each.kind, each.what) for each in findings] == [
        (each.kind, each.what) for each in expected
    ]
    for each, wanted in zip(findings, expected, strict=True):
        assert wanted.now == "…" or each == wanted


DRIFTS: dict[str, tuple[str, list[Any]]] = {
    "a file that was changed": (
        "echo >>/etc/sysctl.d/zz-gpu-cluster.conf",
        [drifted("file /etc/sysctl.d/zz-gpu-cluster.conf", *DRIFTED)],
    ),
    "a file that is gone": (
        "rm /etc/sysctl.d/zz-gpu-cluster.conf",
        [drifted("file /etc/sysctl.d/zz-gpu-cluster.conf", "as applied", "missing")],
    ),
    "a swap device that is mounted at boot again": (
        "sed -i 's/^#gpu-cluster# //' /etc/fstab",
        [
            drifted("file /etc/fstab", *DRIFTED),
            drifted("swap at the next boot: /swap.img"),
        ],
    ),
    "a module that is no longer loaded at boot": (
        "sed -i /br_netfilter/d /etc/modules-load.d/gpu-cluster.conf",
        [drifted("file /etc/modules-load.d/gpu-cluster.conf", *DRIFTED)],
    ),
    "two files of different phases": (
        "rm /etc/sysctl.d/zz-gpu-cluster.conf; echo >>/etc/containerd/conf.d/99-nvidia.toml",
        [
            drifted("file /etc/sysctl.d/zz-gpu-cluster.conf", "as applied", "missing"),
            drifted("file /etc/containerd/conf.d/99-nvidia.toml", *DRIFTED),
        ],
    ),
    "swap that is on again": ("swapon /swap.img", [drifted("swap")]),
    "a kernel parameter": (
        "sysctl -w net.ipv4.ip_forward=0",
        [drifted("sysctl net.ipv4.ip_forward")],
    ),
    "a module that was unloaded": (
        "rm -r /sys/module/br_netfilter",
        [drifted("module br_netfilter")],
    ),
    "an engine's configuration that is gone": (
        "rm /etc/containerd/conf.d/99-nvidia.toml",
        [drifted("file /etc/containerd/conf.d/99-nvidia.toml", "as applied", "missing")],
    ),
    "an engine that was stopped": (
        "systemctl stop containerd",
        [drifted("containerd"), drifted("containerd is not active")],
    ),
    "a step's file that was changed": (
        f"for each in {HELD}/steps/swap-*; do echo >>$each; done",
        [drifted("the step swap")],
    ),
    "a list of steps that is gone": (
        f"rm {HELD}/prepare/steps",
        [drifted("the list of its steps")],
    ),
}


@pytest.mark.promise(
    "What somebody else changes on a host is called drift, with the file or the setting."
)
@pytest.mark.parametrize("name", DRIFTS)
def test_what_somebody_else_changes_on_a_host_is_drift(applied: Applied, name: str) -> None:
    command, expected = DRIFTS[name]
    done = applied.running.run(command)
    assert done.status == 0, done.errors
    try:
        assert list(applied.findings(applied.look())) == expected
    finally:
        applied.apply()
    assert applied.findings(applied.look()) == ()


def test_an_edit_and_a_drift_at_once_are_told_apart(applied: Applied) -> None:
    applied.running.run("rm -r /sys/module/br_netfilter")
    try:
        edit = {"system": {"sysctl": {"vm.max_map_count": "262144"}}}
        assert applied.findings(applied.look(), **edit) == (
            changed("system.sysctl[vm.max_map_count]", "", "262144"),
            drifted("module br_netfilter"),
        )
    finally:
        applied.apply()


def test_a_run_that_was_killed_while_it_applied_an_edit_leaves_no_drift(applied: Applied) -> None:
    """The script of an edit is killed before it records the applied settings.

    The edit enables swap again.
    """
    edit = {"system": {"swapOff": False}}
    (edited, *_) = filter(None, desired_phases(applied.desired(**edit)[0], None).values())
    killed = edited.replace('main "$@"', 'keep_expectations() { kill -9 $$; }\nmain "$@"')
    assert applied.running.apply(killed).status != 0
    try:
        facts = applied.look()
        assert facts.drift == {"prepare": ("swap",)}
        begun = changed("preparation", "begun", "applied")
        assert begun in applied.findings(facts)
        for declared in ({}, edit):
            findings = applied.findings(facts, **declared)
            assert {each.kind for each in findings} == {Kind.CHANGE}
    finally:
        applied.apply()
    assert applied.findings(applied.look()) == ()


def test_a_host_that_was_never_applied_is_new_and_one_that_was_made_anew_is_drift(
    applied: Applied,
) -> None:
    hosts, bare = applied.desired(), HostFacts()
    first = compare(hosts, None, {"gpu-1": bare}).findings
    assert [each.text for each in first] == [
        "preparation none → applied: turns swap off; loads kernel modules at each boot; "
        "sets kernel parameters; keeps other drivers off the GPUs",
        "container runtime none → applied: installs or checks the NVIDIA Container Toolkit; "
        "sets up the NVIDIA runtime in containerd and restarts it",
    ]
    assert {(each.kind, each.first) for each in first} == {(Kind.CHANGE, True)}
    again = compare(hosts, None, {"gpu-1": bare}, validated={"gpu-1": "gpu-1"}).findings
    assert again == (
        drifted("preparation", "applied", "gone from the host"),
        drifted("container runtime", "applied", "gone from the host"),
    )
    assert compare(hosts, None, {"gpu-1": HostFacts(error="no answer")}).findings == ()


def test_a_pending_reboot_is_due(applied: Applied) -> None:
    applied.running.run(
        "mkdir -p /run/gpu-cluster; echo kernel 6.8 >/run/gpu-cluster/reboot-required"
    )
    try:
        due = found("due: host gpu-1: reboot: kernel 6.8")
        assert applied.findings(applied.look()) == (due,)
    finally:
        applied.running.run("rm /run/gpu-cluster/reboot-required")


def test_what_a_host_keeps_goes_with_the_undo(applied: Applied) -> None:
    """Undo every phase and check that no file is left; this test must run last."""
    assert applied.running.exists(f"{HELD}/prepare/settings")
    for declaration in reversed(desired_phases(applied.desired()[0], None).values()):
        if declaration is not None:
            assert applied.running.undo(declaration).status == 0
    assert differences(applied.before, applied.running.tree()) == {}
