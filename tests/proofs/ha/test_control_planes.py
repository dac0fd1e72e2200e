"""Three control planes of real components behind a real haproxy: made, killed, and taken back.

Real components are those of `tests/proofs/real/test_bare_cluster.py`, on four hosts, and haproxy of
the distribution.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proofs.ha.site import MEMBERS, ROLES, STARTED, Ha, three
from tests.proofs.real.bare import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.skipif(not shutil.which("haproxy"), reason="no haproxy on PATH"),
]

POINTS = (
    ("cp-1", "etc/kubernetes/pki/ca.key"),
    ("cp-1", "etc/kubernetes/manifests/etcd.yaml"),
    ("cp-2", "etc/kubernetes/admin.conf"),
    ("cp-2", "etc/kubernetes/manifests/etcd.yaml"),
    ("cp-3", "var/lib/etcd/member"),
)
"""Hosts, and files that kubeadm has written when it is killed, in the order of its steps."""
KILLED = ("cp-1",)
"""Members that are killed while a client writes; the first made the cluster."""
WRITES = 20
"""Confirmed writes before a member is killed, while it is down, and after it is back."""


@pytest.fixture(scope="module")
def ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ha]:
    with three(tmp_path_factory.mktemp("ha")) as site:
        yield site


@pytest.mark.parametrize(("host", "path"), POINTS)
@pytest.mark.ha("kill")
def test_a_kubeadm_that_is_killed_fails_the_run(ha: Ha, host: str, path: str) -> None:
    assert ha.kill_kubeadm(host, path) != 0
    assert not (ha.root(host) / "var/lib/gpu-cluster/cluster/complete").exists()


@pytest.mark.ha("made")
def test_the_next_run_makes_three_members_that_vote(ha: Ha) -> None:
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert "up: 8 of 8 GPUs simulated" in done.stdout
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    nodes = ha.stack.kubectl("get nodes")["items"]
    assert {node["metadata"]["name"] for node in nodes} == ROLES.keys()


@pytest.mark.ha("secret")
def test_nothing_that_a_member_joined_with_is_left(ha: Ha) -> None:
    secrets = ha.stack.kubectl("get secrets -n kube-system")["items"]
    assert "kubeadm-certs" not in {secret["metadata"]["name"] for secret in secrets}
    tokens = [secret for secret in secrets if secret["type"] == "bootstrap.kubernetes.io/token"]
    assert len(tokens) == 1, "the token of workers"
    for name in MEMBERS:
        assert not (ha.root(name) / "run/gpu-cluster-lent").exists()
    assert "certificateKey" not in ha.stack.project.checkpoint()


@pytest.mark.ha("second")
def test_the_second_up_changes_nothing(ha: Ha) -> None:
    done = ha.stack.project.command("up")
    assert "8 of 8 GPUs simulated, 0 resources changed" in done.stdout, done.stdout


@pytest.mark.ha("write")
@pytest.mark.parametrize("host", KILLED)
def test_a_client_loses_no_confirmed_write_when_a_member_is_killed(
    ha: Ha, host: str, record_property: Any
) -> None:
    with ha.writing() as writing:
        writing.wait(WRITES)
        ha.kill_member(host)
        writing.wait(WRITES)
        ha.start_member(host)
        ha.wait_ready(host)
        writing.wait(WRITES)
    result = writing.result
    assert result["lost"] == []
    assert result["confirmed"] > 0
    assert result["longest"] < 15
    record_property("ha", ("writes", f"{result['confirmed']} {host}", True))
    record_property("ha", ("pause", f"{result['longest']:.1f}", True))


@pytest.mark.ha("replaced")
def test_a_member_whose_disk_was_lost_joins_again_with_a_vote(ha: Ha) -> None:
    ha.lose_member("cp-3")
    assert ha.members().keys() == set(MEMBERS), "etcd still counts the member"
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    ha.wait_ready("cp-3")


@pytest.mark.ha("destroyed")
def test_going_down_leaves_the_hosts_as_before(ha: Ha) -> None:
    ha.stack.down()
