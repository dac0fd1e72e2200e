"""Three control planes of real components are changed while a client writes: upgraded and restored.

Real components are those of `tests/proofs/real/test_bare_cluster.py`, on four hosts, of two
versions of Kubernetes, and haproxy of the distribution.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lab.real import build, parts
from tests.proofs.ha.site import MEMBERS, ROLES, STARTED, Ha, three
from tests.proofs.real.bare import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.skipif(not shutil.which("haproxy"), reason="no haproxy on PATH"),
    pytest.mark.skipif(not parts.EARLIER, reason=f"no version before {parts.KUBELET} is pinned"),
]

ALL = (*ROLES, *(f"kube-apiserver-{name}" for name in MEMBERS))
"""Nodes and API servers that have a version."""
REPLACED = "etc/kubernetes/tmp/kubeadm-backup-manifests-*/{}.yaml"
"""Manifest of a static pod that kubeadm has taken away, to put the new one in its place."""
POINTS = (
    ("cp-1", "kube-apiserver"),
    ("cp-1", "kube-scheduler"),
    ("cp-2", "kube-apiserver"),
    ("cp-2", "kube-controller-manager"),
    ("cp-3", "kube-apiserver"),
)
"""Hosts, and static pods whose manifest kubeadm replaces when it is killed, in their order."""
WRITES = 100
"""Confirmed writes while a disk is full."""


@pytest.fixture(scope="module")
def ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ha]:
    with three(tmp_path_factory.mktemp("changes"), parts.EARLIER) as site:
        yield site


@pytest.mark.ha("made")
def test_three_control_planes_are_made_at_the_earlier_version(ha: Ha) -> None:
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.versions() == dict.fromkeys(ALL, f"v{parts.EARLIER}")
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)


@pytest.mark.ha("refused")
def test_no_upgrade_begins_while_a_member_is_down(ha: Ha) -> None:
    ha.stack.project.edit(
        lambda cluster: cluster["kubernetesPackages"].update(version=parts.KUBELET)
    )
    ha.kill_member("cp-3")
    ha.wait_down("cp-3")
    done = ha.stack.project.command("up")
    assert done.returncode != 0
    assert "etcd-cp-3" in done.stdout, done.stdout
    assert ha.versions() == dict.fromkeys(ALL, f"v{parts.EARLIER}")
    ha.start_member("cp-3")
    ha.wait_ready("cp-3")


@pytest.mark.ha("kill")
@pytest.mark.parametrize(("host", "replaced"), POINTS)
def test_an_upgrade_that_is_killed_loses_no_write_and_upgrades_no_kubelet(
    ha: Ha, host: str, replaced: str, record_property: Any
) -> None:
    with ha.writing() as writing:
        assert ha.kill_kubeadm(host, REPLACED.format(replaced)) != 0
    assert writing.result["lost"] == []
    versions = ha.versions()
    assert {versions[name] for name in ROLES} == {f"v{parts.EARLIER}"}, "no kubelet before all"
    record_property("ha", ("writes", f"{writing.result['confirmed']} {host} {replaced}", True))
    record_property("ha", ("pause", f"{writing.result['longest']:.1f}", True))


@pytest.mark.ha("upgraded")
def test_the_next_run_upgrades_all_members_and_loses_no_write(ha: Ha, record_property: Any) -> None:
    with ha.writing() as writing:
        done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.versions() == dict.fromkeys(ALL, f"v{parts.KUBELET}")
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    assert writing.result["lost"] == []
    assert writing.result["longest"] < 15
    record_property("ha", ("writes", f"{writing.result['confirmed']} upgraded", True))
    record_property("ha", ("pause", f"{writing.result['longest']:.1f}", True))


@pytest.mark.ha("snapshots")
def test_each_member_keeps_snapshots_from_before_its_changes(ha: Ha) -> None:
    etcdutl = build.build_etcd_tools()["etcdutl"]
    for name in MEMBERS:
        kept = ha.snapshots(name)
        assert 1 <= len(kept) <= 3, kept
        for file in kept:
            subprocess.run([str(etcdutl), "snapshot", "status", str(file)], check=True, timeout=60)


@pytest.mark.ha("second")
def test_the_second_up_changes_nothing(ha: Ha) -> None:
    done = ha.stack.project.command("up")
    assert "8 of 8 GPUs simulated, 0 resources changed" in done.stdout, done.stdout


@pytest.mark.ha("renewed")
def test_certificates_that_end_soon_are_in_status_and_are_renewed(ha: Ha) -> None:
    ha.age_certificate("cp-2")
    end = ha.certificate("cp-2").not_valid_after_utc
    status = ha.stack.project.command("status")
    assert f"certificate until {end:%Y-%m-%d}" in status.stdout, status.stdout
    with ha.writing() as writing:
        done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.certificate("cp-2").not_valid_after_utc > end
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    assert writing.result["lost"] == []
    again = ha.stack.project.command("up")
    assert "8 of 8 GPUs simulated, 0 resources changed" in again.stdout, again.stdout


@pytest.mark.ha("replaced")
def test_the_host_that_made_the_cluster_is_replaced_by_an_empty_one(ha: Ha) -> None:
    ha.lose_member("cp-1")
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    ha.wait_ready("cp-1")
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)


@pytest.mark.ha("restored")
def test_a_snapshot_is_restored_by_the_documented_lines_when_two_members_are_lost(ha: Ha) -> None:
    ha.stack.run_kubectl("create configmap before-the-snapshot")
    ha.lose_member("cp-3")
    done = ha.stack.project.command("up")  # Before a host joins, the one that lends keeps one.
    assert done.returncode == 0, done.stdout
    ha.stack.run_kubectl("create configmap after-the-snapshot")
    for name in ("cp-2", "cp-3"):
        ha.lose_member(name)
    ha.restore("cp-1")
    ha.wait_ready("cp-1")
    assert ha.members() == {"cp-1": STARTED}
    names = {item["metadata"]["name"] for item in ha.stack.kubectl("get configmaps")["items"]}
    assert "before-the-snapshot" in names
    assert "after-the-snapshot" not in names
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)


@pytest.mark.ha("resized")
def test_three_control_planes_become_one_and_one_becomes_three(ha: Ha) -> None:
    with ha.writing() as writing:
        hosts = ha.declare_without("cp-2", "cp-3")
        done = ha.stack.project.command("up")
        assert done.returncode == 0, done.stdout
        assert ha.members() == {"cp-1": STARTED}
        ha.stack.project.edit(lambda cluster: cluster.update(hosts=hosts))
        done = ha.stack.project.command("up")
        assert done.returncode == 0, done.stdout
        assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    assert writing.result["lost"] == []


@pytest.mark.ha("full")
def test_a_client_loses_no_confirmed_write_when_the_disk_of_a_member_is_full(
    ha: Ha, record_property: Any
) -> None:
    with ha.writing() as writing, ha.full_disk("cp-1"):
        writing.wait(WRITES)
    assert writing.result["lost"] == []
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    record_property("ha", ("writes", f"{writing.result['confirmed']} full disk", True))
    record_property("ha", ("pause", f"{writing.result['longest']:.1f}", True))


@pytest.mark.ha("destroyed")
def test_going_down_leaves_the_hosts_as_before(ha: Ha) -> None:
    ha.stack.down()
