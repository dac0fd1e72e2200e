"""Three control planes of real components are changed while a client writes: upgraded and restored.

Real components are those of `tests/proofs/real/test_bare_cluster.py`, on four hosts, of two
versions of Kubernetes, and haproxy of the distribution.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from lab.real import parts
from tests.proofs.ha.site import MEMBERS, ROLES, STARTED, Ha, three
from tests.proofs.real.bare import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.skipif(not shutil.which("haproxy"), reason="no haproxy on PATH"),
    pytest.mark.skipif(not parts.EARLIER, reason=f"no version before {parts.KUBELET} is pinned"),
]

ALL = (*ROLES, *(f"kube-apiserver-{name}" for name in MEMBERS))
"""Nodes and API servers that have a version."""
REPLACED = "etc/kubernetes/tmp/kubeadm-backup-manifests-*/kube-apiserver.yaml"
"""Manifest of an API server that kubeadm has taken away, to put the new one in its place."""


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
def test_an_upgrade_that_is_killed_between_two_members_loses_no_write(
    ha: Ha, record_property: Any
) -> None:
    with ha.writing() as writing:
        assert ha.kill_kubeadm("cp-2", REPLACED) != 0
    assert writing.result["lost"] == []
    versions = ha.versions()
    assert versions["kube-apiserver-cp-1"] == f"v{parts.KUBELET}"
    assert {versions[name] for name in ROLES} == {f"v{parts.EARLIER}"}, "no kubelet before all"
    record_property("ha", ("writes", f"{writing.result['confirmed']} upgrade killed", True))
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


def test_each_member_keeps_snapshots_from_before_its_changes(ha: Ha) -> None:
    for name in MEMBERS:
        kept = ha.snapshots(name)
        assert 1 <= len(kept) <= 3, kept
        for file in kept:
            ha.machine(name).run(f"etcdutl snapshot status /{file.relative_to(ha.root(name))}")


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


@pytest.mark.ha("destroyed")
def test_going_down_leaves_the_hosts_as_before(ha: Ha) -> None:
    ha.stack.down()
