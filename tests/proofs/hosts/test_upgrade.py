"""Upgrade Kubernetes with `kubeadm upgrade` on hosts of a cluster that the stack has created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gpu_cluster.hosts.kubeadm.scripts import init_script, join_script
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.hosts.script import Declaration
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import catalogue
from tests.desired_host import desired_host
from tests.kubeadm_refusals import refusals
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Result, Running

pytestmark = pytest.mark.full

SEEN = "/run/simulated-kubeadm"
TOKEN = "abcdef.0123456789abcdef"
HASH = f"sha256:{'0123456789abcdef' * 4}"
VERSIONS = ("1.34.4", "1.34.9", "1.35.1", "1.36.0")
MANIFESTS = "/etc/kubernetes/manifests"


@dataclass
class Member:
    """Host of a cluster created at the first version, with declarations of other versions."""

    host: Running
    role: str
    repository: dict[str, Any]

    def cluster(self, version: str, **init: Any) -> Cluster:
        first = {"name": "first", "address": "192.0.2.1", "role": "control-plane"}
        here = {"name": "gpu-1", "address": "127.0.0.1", "role": self.role}
        hosts = [here] if self.role == "control-plane" else [here, first]
        if self.role == "member":
            here = {**here, "role": "control-plane"}
            third = {"name": "third", "address": "192.0.2.3", "role": "control-plane"}
            hosts = [first, here, third]
        network = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}}
        packages = {"version": version, "repository": self.repository, "init": network | init}
        pool = {
            "name": "a",
            "nodes": ["gpu-1" if self.role == "gpu-worker" else "other"],
            "gpusPerNode": 8,
        }
        return load(
            {
                "version": "v1",
                "kubernetes": {"context": "here"},
                "platform": "device-plugin",
                "driver": {"source": "preinstalled"},
                "pools": [pool],
                "hosts": [{**one, "hostKey": simulated.host_public_key("gpu-1")} for one in hosts],
                "kubernetesPackages": packages,
            }
        )

    def initialize(self, **init: Any) -> None:
        """Make the host a member of a cluster at the first version."""
        declared = self.cluster(VERSIONS[0], **init)
        if self.role == "control-plane":
            joins = init_script(desired_host(declared, 0))
        else:
            joins = join_script(desired_host(declared, 0), TOKEN, (HASH,))
        for script in (self.script(VERSIONS[0], **init), joins):
            done = self.host.apply(script)
            assert (done.status, done.errors) == (0, "")

    def script(self, version: str, **init: Any) -> Declaration:
        cluster = self.cluster(version, **init)
        here = next(host for host in cluster.hosts if host.name == "gpu-1")
        return prepare_script(desired_host(cluster, here))

    def run(self, action: str, version: str, **init: Any) -> Result:
        """Run an action of the host script in the same way as a rollout does."""
        script = f"GC_ROLLOUT=1\nGC_ETCD_TRIES=1\n{self.script(version, **init)}"
        return self.host.run(f"sh -s -- {action}", script)

    def roll(self, version: str) -> None:
        """Run all actions of a rollout on the host; actions on its Node are omitted."""
        for action in ("upgrade", "apply"):
            done = self.run(action, version)
            assert (done.status, done.errors) == (0, ""), done

    def mark(self, name: str) -> None:
        """Create a marker file that makes the fake kubeadm fail, or behave in a special way."""
        self.host.run(f"mkdir -p {SEEN}; touch {SEEN}/{name}")

    def commands(self) -> list[str]:
        """Return the recorded kubeadm commands, each with the kubeadm and kubelet versions."""
        return self.host.run(f"cat {SEEN}/commands; rm -f {SEEN}/commands").output.splitlines()

    def serving(self) -> str:
        return self.host.run(
            f"sed -n 's|.*/kube-apiserver:||p' {MANIFESTS}/kube-apiserver.yaml"
        ).output.strip()

    def packages(self) -> set[str]:
        names = ("kubelet", "kubeadm", "kubectl")
        found = software.installed(self.host, "debian")
        return {f"{name} {found[name].partition('-')[0]}" for name in names}

    def running(self) -> str:
        """Return the version of the running kubelet."""
        return self.host.read("/run/simulated-kubelet").strip()

    def snapshots(self) -> list[str]:
        """Return the names of the kept snapshots, in order."""
        return self.host.run("ls /var/lib/gpu-cluster/snapshots").output.split()


def every(version: str) -> set[str]:
    return {f"{name} {version}" for name in ("kubelet", "kubeadm", "kubectl")}


@pytest.fixture(params=["control-plane"])
def member(request: pytest.FixtureRequest, cluster: str, namespaces: None) -> Iterator[Member]:
    host = software.start(cluster, "debian")
    with software.serving("debian", catalogue.kubernetes(*VERSIONS)) as repository:
        yield Member(host, request.param, repository)


@pytest.fixture
def joined(member: Member) -> Member:
    """Return a host that is a member of a cluster at the first version."""
    member.initialize()
    return member


worker = pytest.mark.parametrize("member", ["gpu-worker"], indirect=True)


def test_the_control_plane_is_upgraded_by_the_new_kubeadm_before_its_kubelet(
    member: Member,
) -> None:
    member.initialize(skipPhases=(left_out := ["addon/coredns", "mark-control-plane"]))
    done = member.run("upgrade", "1.35.1", skipPhases=left_out)
    assert (done.status, done.errors) == (0, "")
    assert "+ upgraded the control plane from 1.34.4 to 1.35.1 by kubeadm" in done.output
    assert member.commands() == [
        "apply v1.35.1 --yes --ignore-preflight-errors=CoreDNSUnsupportedPlugins,CoreDNSMigration "
        "--skip-phases=addon/coredns kubeadm=1.35.1 v1.34.4"
    ]
    assert member.serving() == "v1.35.1"
    assert member.packages() == {"kubelet 1.34.4", "kubeadm 1.35.1", "kubectl 1.34.4"}
    assert member.running() == "v1.34.4"
    assert software.held(member.host, "debian") == {"kubelet", "kubeadm", "kubectl"}
    member.roll("1.35.1")
    assert member.commands() == []
    assert member.packages() == every("1.35.1")
    assert member.running() == "v1.35.1"
    assert member.host.apply(member.script("1.35.1")).output == "changed=0\n"
    # The rollout of something else.
    assert "+ kept a snapshot of etcd" in member.run("upgrade", "1.35.1").output
    assert member.commands() == []


def as_member(host: Member, at: str) -> None:
    """Make the host one of three control planes, the first of which is upgraded to a version."""
    host.role = "member"
    host.host.run(f"echo {at} >/etc/kubernetes/pki/cluster-version")


def test_another_control_plane_follows_the_first_one(joined: Member) -> None:
    as_member(joined, "1.35.1")
    joined.roll("1.35.1")
    assert joined.commands() == ["node kubeadm=1.35.1 v1.34.4"]
    assert joined.serving() == "v1.35.1"
    assert joined.packages() == every("1.35.1")
    assert joined.running() == "v1.35.1"


def test_a_control_plane_is_not_upgraded_before_the_first_one(joined: Member) -> None:
    as_member(joined, "1.34.4")
    done = joined.run("upgrade", "1.35.1")
    assert done.status == 1
    assert (
        "found a cluster at kubernetesVersion: v1.34.4; wanted v1.35.1, by kubeadm upgrade apply"
        in done.errors
    )
    assert joined.commands() == []
    assert joined.serving() == "v1.34.4"


LEARNER = "2, started, cp-2, https://192.0.2.2:2380, https://192.0.2.2:2379, true"
ANNOUNCED = "3, unstarted, , https://192.0.2.3:2380, , true"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (f"touch {SEEN}/alarm", "Active Alarm(s)"),
        (f"echo '{LEARNER}' >{SEEN}/members", "cp-2 has no vote"),
        (f"echo '{ANNOUNCED}' >{SEEN}/members", "a member that never started has no vote"),
    ],
    ids=["alarm", "learner", "never started"],
)
def test_no_control_plane_is_upgraded_while_etcd_is_not_well(
    joined: Member, command: str, says: str
) -> None:
    joined.host.run(f"mkdir -p {SEEN}; {command}")
    done = joined.run("upgrade", "1.35.1")
    assert done.status == 1
    assert says in done.errors
    assert joined.commands() == []
    assert joined.serving() == "v1.34.4"


def test_a_declared_number_of_snapshots_is_kept(joined: Member) -> None:
    for day in range(1, 6):
        folder = "/var/lib/gpu-cluster/snapshots"
        joined.host.run(f"mkdir -m 700 -p {folder}; touch {folder}/2026010{day}T000000Z.db")
    done = joined.run("upgrade", "1.35.1", snapshots=2)
    assert (done.status, done.errors) == (0, "")
    oldest, newest = joined.snapshots()
    assert oldest == "20260105T000000Z.db"
    assert "simulated" in joined.host.read(f"/var/lib/gpu-cluster/snapshots/{newest}")
    mode = joined.host.run("stat -c %a /var/lib/gpu-cluster/snapshots")
    assert mode.output == "700\n"


def test_an_upgrade_that_goes_on_keeps_the_snapshot_from_before_it(joined: Member) -> None:
    joined.mark("refuse-upgrade")
    assert joined.run("upgrade", "1.35.1", snapshots=1).status == 1
    before = joined.snapshots()
    assert joined.run("upgrade", "1.35.1", snapshots=1).status == 1
    joined.host.run(f"rm {SEEN}/refuse-upgrade")
    assert joined.run("upgrade", "1.35.1", snapshots=1).status == 0
    assert joined.snapshots() == before


@worker
def test_a_worker_gets_its_configuration_before_its_kubelet(joined: Member) -> None:
    joined.roll("1.35.1")
    assert joined.commands() == ["node kubeadm=1.35.1 v1.34.4"]
    assert joined.packages() == every("1.35.1")
    assert joined.running() == "v1.35.1"
    assert joined.host.apply(joined.script("1.35.1")).output == "changed=0\n"


def test_a_patch_release_is_an_upgrade_too(joined: Member) -> None:
    joined.roll("1.34.9")
    assert [line.split(" ", 2)[1] for line in joined.commands()] == ["v1.34.9"]
    assert (joined.serving(), joined.running()) == ("v1.34.9", "v1.34.9")


def test_a_skipped_minor_version_stops_with_kubeadms_own_words(joined: Member) -> None:
    done = joined.run("upgrade", "1.36.0")
    assert done.status == 1
    assert "can upgrade only 1 minor version at a time" in done.errors
    assert joined.serving() == "v1.34.4"
    assert joined.packages() == {"kubelet 1.34.4", "kubeadm 1.36.0", "kubectl 1.34.4"}


@pytest.mark.parametrize(("version", "words"), refusals(VERSIONS[0]))
def test_the_fake_kubeadm_refuses_versions_in_the_words_of_the_real_one(
    joined: Member, version: str, words: str
) -> None:
    refused = joined.host.run(f"kubeadm upgrade apply {version} --yes")
    assert refused.status == 1
    assert words in refused.errors
    assert joined.serving() == "v1.34.4"


def test_a_control_plane_that_somebody_else_upgraded_stays(joined: Member) -> None:
    joined.host.run(f"sed -i s/1.34.4/1.35.1/ {MANIFESTS}/*.yaml")
    joined.roll("1.34.9")
    assert joined.commands() == []
    assert joined.serving() == "v1.35.1"
    assert joined.running() == "v1.34.9"


def test_a_refusal_leaves_all_as_it_was_but_kubeadm(joined: Member) -> None:
    joined.mark("refuse-upgrade")
    done = joined.run("upgrade", "1.35.1")
    assert "[ERROR CreateJob]: no condition of type Complete" in done.errors
    assert joined.packages() == {"kubelet 1.34.4", "kubeadm 1.35.1", "kubectl 1.34.4"}
    assert joined.running() == "v1.34.4"
    joined.host.run(f"rm {SEEN}/refuse-upgrade")
    joined.roll("1.35.1")
    assert joined.running() == "v1.35.1"


@worker
def test_a_worker_that_kubeadm_refuses_keeps_its_kubelet(joined: Member) -> None:
    joined.mark("refuse-upgrade")
    done = joined.run("apply", "1.35.1")
    assert "kubeadm upgrade node failed" in done.errors
    assert joined.packages() == {"kubelet 1.34.4", "kubeadm 1.35.1", "kubectl 1.34.4"}
    assert joined.running() == "v1.34.4"


@pytest.mark.parametrize("place", ["etcd", "kube-apiserver", "kube-scheduler", "apply"])
def test_an_upgrade_that_was_killed_goes_on_from_where_it_was(joined: Member, place: str) -> None:
    joined.mark(f"hang-{place}")
    script = f"GC_ROLLOUT=1\n{joined.script('1.35.1')}"
    killed = joined.host.run("timeout -s KILL 25 sh -s -- upgrade", script)
    assert killed.status != 0
    assert joined.commands()
    assert joined.host.exists(f"{MANIFESTS}/{place}.yaml") is False
    joined.host.run(f"pkill -f 'sleep 60[0]'; rm {SEEN}/hang-{place}")
    joined.roll("1.35.1")
    assert len(joined.commands()) == 1
    assert (joined.serving(), joined.running()) == ("v1.35.1", "v1.35.1")
    assert joined.host.apply(joined.script("1.35.1")).output == "changed=0\n"


def test_a_kubelet_whose_restart_was_killed_is_restarted(joined: Member) -> None:
    assert joined.run("upgrade", "1.35.1").status == 0
    hanging = 'case " $* " in *" restart kubelet "*) sleep 600 ;; esac\\n'
    joined.host.run(f"sed -i '2i {hanging}' /usr/bin/systemctl")
    script = f"GC_ROLLOUT=1\n{joined.script('1.35.1')}"
    assert joined.host.run("timeout -s KILL 25 sh -s -- apply", script).status != 0
    assert joined.packages() == every("1.35.1")
    assert joined.running() == "v1.34.4"
    joined.host.run("pkill -f 'sleep 60[0]'; sed -i 2d /usr/bin/systemctl")
    joined.roll("1.35.1")
    assert joined.running() == "v1.35.1"
