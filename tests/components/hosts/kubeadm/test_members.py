"""Scripts of several control planes: who is taken out of etcd, what a join is lent, who leaves.

kubectl and kubeadm are fakes that keep etcd's members in a file, as `etcdctl member list` prints
them (etcd v3.6 etcdctl/ctlv3/command/printer_simple.go). The proof `make test-ha` runs the real
ones.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.findings import Kind
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import compare
from gpu_cluster.hosts.kubeadm.lending import ASK, LENT, MEMBERSHIP
from gpu_cluster.hosts.kubeadm.scripts import (
    access_script,
    init_script,
    lend_script,
    member_script,
)
from gpu_cluster.hosts.observed.probe import MARK
from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.ssh.answers import Unreadable
from tests.components.hosts.kubeadm.faked_host import NOTHING, Host
from tests.desired_host import desired_host
from tests.fixtures.clusters import HOST_KEY, cluster

KUBECTL = r"""#!/bin/sh
# Refuses what etcd refuses: the removal of a member if "$ROOT/refuses" exists.
printf '%s\n' "kubectl $*" >>"$ROOT/calls"
case "$*" in
    *"get pods -l component=etcd"*)
        [ ! -e "$ROOT/silent" ] || exit 1
        printf 'cp-1 etcd-cp-1\ncp-2 etcd-cp-2\n' ;;
    *" member list"*) cat "$ROOT/members" ;;
    *" member remove "*)
        [ ! -e "$ROOT/refuses" ] || { echo "etcdserver: not enough started members"; exit 1; }
        for id in "$@"; do :; done
        sed -i "/^$id,/d" "$ROOT/members" ;;
    "annotate --local "*)
        for renewed in "$@"; do :; done
        printf 'metadata:\n  annotations: {%s}\nkind: Pod\n' "$renewed"
        echo "${renewed#*=}" >"$ROOT/renewed" ;;
    *"get pod "*)
        case "$*" in *"pod kube-scheduler-"*) [ ! -e "$ROOT/stuck" ] || exit 1 ;; esac
        echo "$(cat "$ROOT/renewed") True" ;;
    *"get secret kubeadm-certs"*) printf bootstrap-token-owner ;;
    *"/version"*) [ ! -e "$ROOT/answers" ] || echo '{"gitVersion": "v1.34.4"}' ;;
esac
"""
KUBEADM = r"""#!/bin/sh
printf '%s\n' "kubeadm $*" >>"$ROOT/calls"
for word in "$@"; do [ ! -f "$word" ] || cat "$word" >>"$ROOT/configurations"; done
case "$*" in *"token create"*) echo "--discovery-token-ca-cert-hash sha256:HASH" ;; esac
""".replace("HASH", "1" * 64)
FIRST = "a1, started, cp-1, https://192.0.2.1:2380, https://192.0.2.1:2379, false\n"
SECOND = "b2, started, cp-2, https://192.0.2.2:2380, https://192.0.2.2:2379, false\n"
THIRD = "c3, started, cp-3, https://192.0.2.3:2380, https://192.0.2.3:2379, false\n"
LEARNER = THIRD.replace("false", "true")
ANNOUNCED = "c3, unstarted, , https://192.0.2.3:2380, , true\n"
GONE = "d4, started, cp-0, https://192.0.2.4:2380, https://192.0.2.4:2379, false\n"
NODES = ("cp-1", "cp-2", "cp-3")

pytestmark = pytest.mark.skipif(not Path("/usr/bin/flock").exists(), reason="no flock")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    programs = {"kubectl": KUBECTL, "kubeadm": KUBEADM, "systemctl": NOTHING, "sleep": NOTHING}
    host = Host.make(tmp_path, programs)
    host.write("etc/kubernetes/admin.conf")
    return host


def declared(protect: bool = True) -> Any:
    hosts = [
        {"name": name, "role": "control-plane", "address": f"192.0.2.{n}", "hostKey": HOST_KEY}
        for n, name in enumerate(NODES, 1)
    ]
    gpu = {"name": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY}
    init = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}, "protect": protect}
    return cluster(
        pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
        hosts=[*hosts, gpu],
        kubernetesPackages={"version": "1.34.4", "init": init},
    )


def lend(joining: str = "cp-3") -> str:
    return lend_script(desired_host(declared()), joining, NODES if joining else ())


BALANCED_KUBEADM = r"""#!/bin/sh
# The load balancer passes requests from the second one on; the token is there since `kubeadm init`.
number=$(($(cat "$ROOT/requests" 2>/dev/null) + 1))
echo "$number" >"$ROOT/requests"
[ "$number" -gt 1 ] || { echo "error: connection refused"; exit 1; }
case "$*" in
    *"token delete"*) rm "$ROOT/token-is-there" ;;
    *"token create"*)
        [ ! -e "$ROOT/token-is-there" ] || { echo "error: a token with id already exists"; exit 1; }
        echo "--discovery-token-ca-cert-hash sha256:HASH" ;;
esac
""".replace("HASH", "1" * 64)


def test_a_load_balancer_that_begins_to_answer_meanwhile_spoils_no_token(host: Host) -> None:
    host.write("programs/kubeadm", BALANCED_KUBEADM)
    host.write("token-is-there")
    host.write("var/lib/gpu-cluster/cluster/complete")
    host.write("var/lib/gpu-cluster/cluster/token", "abcdef.0123456789abcdef\n")
    status, output, errors = host.run(access_script(desired_host(declared()), (), inline=True))
    assert (status, errors) == (0, "")
    assert output.startswith("abcdef.0123456789abcdef sha256:")


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ([], "none"),
        (["var/lib/gpu-cluster/cluster/begun", "etc/kubernetes/kubelet.conf"], "none"),
        (["var/lib/gpu-cluster/cluster/complete", "etc/kubernetes/kubelet.conf"], "member"),
        (["etc/kubernetes/kubelet.conf"], "other"),
    ],
)
def test_a_node_that_did_not_begin_a_join_is_lent_nothing(
    host: Host, files: list[str], answer: str
) -> None:
    for name in files:
        host.write(name)
    status, output, _ = host.run(ASK)
    assert (status, MEMBERSHIP.read(output)) == (0, answer)


def leaving(protect: bool = True) -> str:
    return member_script(desired_host(declared(protect), 2), inline=True)


@pytest.mark.parametrize(
    ("members", "left"),
    [
        (FIRST + SECOND, FIRST + SECOND),
        (FIRST + SECOND + ANNOUNCED, FIRST + SECOND),
        (FIRST + SECOND + LEARNER, FIRST + SECOND),
        (FIRST + SECOND + THIRD, FIRST + SECOND),
        (FIRST + SECOND + GONE, FIRST + SECOND),
    ],
    ids=["none", "announced", "learner", "lost its disk", "not declared"],
)
def test_before_a_join_etcd_keeps_only_declared_members_that_run(
    host: Host, members: str, left: str
) -> None:
    host.write("var/lib/gpu-cluster/cluster/complete")
    host.write("members", members)
    status, output, errors = host.run(lend())
    assert status == 0, errors
    assert host.read("members") == left
    assert "delete node cp-3" in host.read("calls")
    lent = LENT.read(output)
    assert lent is not None
    assert lent.hashes == (f"sha256:{'1' * 64}",)
    assert lent.token in host.read("configurations")
    assert lent.key in host.read("configurations")
    # Arguments of programs can be read by each user of the host.
    assert lent.token not in host.read("calls")
    assert lent.key not in host.read("calls")
    assert lent.token not in errors + "".join(
        path.read_text() for path in host.state.iterdir() if path.is_file()
    )


def test_etcd_decides_whether_it_can_lose_a_member(host: Host) -> None:
    host.write("var/lib/gpu-cluster/cluster/complete")
    host.write("members", FIRST + SECOND + GONE)
    host.write("refuses")
    status, output, errors = host.run(lend())
    assert (status, output) == (1, "")
    assert "found etcd refusing to lose its member cp-0" in errors
    assert "not enough started members" in errors
    assert "token create" not in host.read("calls")


def test_what_was_lent_is_deleted_by_name_and_once(host: Host) -> None:
    host.write("var/lib/gpu-cluster/cluster/complete")
    host.write("members", FIRST + SECOND)
    _, output, _ = host.run(lend())
    lent = LENT.read(output)
    assert lent is not None
    host.write("calls")
    assert host.run(lend(""))[:2] == (0, "")
    token = f"bootstrap-token-{lent.token[:6]}"
    assert f"kubeadm-certs {token} bootstrap-token-owner\n" in host.read("calls")
    host.write("calls")
    assert host.run(lend(""))[:2] == (0, "")
    assert host.read("calls") == ""


def test_a_host_that_is_no_member_lends_nothing(host: Host) -> None:
    status, output, errors = host.run(lend())
    assert (status, output) == (1, "")
    assert "found no cluster that this stack has made here" in errors


@pytest.mark.parametrize("text", ["abc\n", "abcdef.0123456789abcdef sha256:1\n", f"{'2' * 64}\n"])
def test_another_output_of_the_lending_host_is_not_used(text: str) -> None:
    with pytest.raises(Unreadable):
        LENT.read(text)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the script requires root")


@needs_root
def test_a_member_leaves_etcd_before_its_host_is_reset(host: Host) -> None:
    host.write("members", FIRST + SECOND + THIRD)
    host.write("var/lib/gpu-cluster/cluster/effects", "member member cluster\n")
    status, _, errors = host.run(leaving(), "undo")
    assert status == 0, errors
    assert host.read("members") == FIRST + SECOND
    calls = host.read("calls")
    assert calls.index("member remove c3") < calls.index("kubeadm reset")


@needs_root
@pytest.mark.parametrize(
    ("obstacle", "says"), [("refuses", "etcd refusing"), ("silent", "no other")]
)
def test_a_member_that_etcd_needs_is_not_reset_without_consent(
    host: Host, obstacle: str, says: str
) -> None:
    host.write("members", FIRST + SECOND + THIRD)
    host.write("var/lib/gpu-cluster/cluster/effects", "member member cluster\n")
    host.write(obstacle)
    status, _, errors = host.run(leaving(), "undo")
    assert status == 1
    assert says in errors
    assert "kubeadm reset" not in host.read("calls")
    status, _, errors = host.run(leaving(protect=False), "undo")
    assert status == 0, errors
    assert "kubeadm reset" in host.read("calls")


@needs_root
def test_a_join_after_one_that_was_killed_finds_the_folder_of_etcd_empty(host: Host) -> None:
    host.write("var/lib/gpu-cluster/cluster/begun")
    host.write("var/lib/etcd/member/wal/0.wal")
    host.write("run/gpu-cluster-lent/join.yaml")
    status, _, errors = host.run(leaving())
    assert status == 0, errors
    assert list((host.root / "var/lib/etcd").iterdir()) == []
    assert "kubeadm join" in host.read("calls").partition("kubeadm reset")[2]


@needs_root
def test_a_join_without_what_it_is_lent_changes_nothing(host: Host) -> None:
    (host.root / "etc/kubernetes/admin.conf").unlink()
    status, _, errors = host.run(leaving())
    assert status == 1
    assert "found no token and no certificate key" in errors
    assert "kubeadm" not in host.read("calls")


def certificate(days_ago: int, days_left: int) -> str:
    """Return a certificate in PEM, made some days ago and valid for some more days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(),
        now - timedelta(days_ago), now + timedelta(days_left),
    )  # fmt: skip
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def as_member(host: Host, days_ago: int, days_left: int) -> None:
    """Make the host a member whose certificate was made some days ago."""
    for name in ("complete", "begun"):
        host.write(f"var/lib/gpu-cluster/cluster/{name}")
    host.write("var/lib/gpu-cluster/cluster/effects", "member member cluster\n")
    host.write("etc/kubernetes/pki/apiserver.crt", certificate(days_ago, days_left))
    for name in STATIC_PODS:
        host.write(f"etc/kubernetes/manifests/{name}.yaml", "kind: Pod\n")


def due(host: Host) -> str:
    """Return what the probe's part of the script reports about the certificate."""
    part = (FOLDER / "library/certificates.sh").read_text().partition(MARK)[2]
    path = "/etc/kubernetes/pki/apiserver.crt"
    script = f"root=$GPU_CLUSTER_ROOT\n{part}\nfound_certificate {path} || echo $drifted\n"
    status, output, errors = host.run(script)
    assert (status, errors) == (0, "")
    return output.rstrip()


@needs_root
@pytest.mark.parametrize(("days_ago", "days_left"), [(250, 115), (5000, 91), (20, 10)])
def test_certificates_of_a_control_plane_are_renewed_in_their_last_quarter(
    host: Host, days_ago: int, days_left: int
) -> None:
    as_member(host, days_ago, days_left)
    assert due(host) == ""
    assert host.run(leaving())[0] == 0
    assert "certs renew" not in host.read("calls")
    as_member(host, 300, 65)
    end = datetime.now(UTC) + timedelta(65)
    assert due(host) == f"certificate until {end:%Y-%m-%d}"
    status, output, errors = host.run(leaving())
    assert status == 0, errors
    assert "+ renewed the certificates of the control plane" in output
    assert host.read("calls").count("kubeadm certs renew all") == 1
    for name in STATIC_PODS:
        assert "certificates-renewed" in host.read(f"etc/kubernetes/manifests/{name}.yaml")


def test_a_certificate_that_ends_soon_is_due_and_no_drift() -> None:
    desired = resolve(declared(), "dev")
    facts = HostFacts(
        applied=("cluster",), drift={"cluster": ("certificate until 2027-02-03",)},
        settings={"cluster": {}},
    )  # fmt: skip
    found = compare(desired.hosts, desired.kubeadm, {"cp-1": facts}).cluster["cp-1"]
    (finding,) = (each for each in found if each.kind is not Kind.CHANGE)
    assert (finding.kind, finding.key) == (
        Kind.DUE,
        "control plane's certificate until 2027-02-03",
    )


@needs_root
def test_a_renewal_that_was_killed_before_a_restart_goes_on(host: Host) -> None:
    as_member(host, 300, 65)
    host.write("stuck")
    status, _, errors = host.run(leaving())
    assert status == 1
    assert "found no kube-scheduler that is ready with new certificates" in errors
    (host.root / "stuck").unlink()
    host.write("etc/kubernetes/pki/apiserver.crt", certificate(0, 365))
    status, output, errors = host.run(leaving())
    assert status == 0, errors
    assert "+ renewed the certificates" in output
    assert "changed=0" in host.run(leaving())[1]


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_that_is_no_certificate_is_never_due(host: Host, text: str) -> None:
    host.write("etc/kubernetes/pki/apiserver.crt", text)
    assert due(host) == ""


@needs_root
def test_a_host_in_the_place_of_the_first_one_joins_the_others(host: Host) -> None:
    (host.root / "etc/kubernetes/admin.conf").unlink()
    host.write("answers")
    host.write("run/gpu-cluster-lent/join.yaml")
    first = init_script(desired_host(declared()), inline=True)
    status, _, errors = host.run(first)
    assert status == 0, errors
    assert "kubeadm join" in host.read("calls")
    assert "kubeadm init" not in host.read("calls")
    assert not (host.root / "run/gpu-cluster-lent/join.yaml").exists()
    host.write("etc/kubernetes/admin.conf", "kubeconfig\n")
    status, output, errors = host.run(access_script(desired_host(declared()), (), inline=True))
    assert (status, errors) == (0, "")
    assert output.endswith("kubeconfig\n")
    # Undone, it leaves the others.
    host.write("members", FIRST + SECOND)
    assert host.run(first, "undo")[0] == 0
    assert host.read("members") == SECOND


@needs_root
def test_another_order_of_the_hosts_changes_no_member(host: Host) -> None:
    host.write("run/gpu-cluster-lent/join.yaml")
    (host.root / "etc/kubernetes/admin.conf").unlink()
    assert host.run(member_script(desired_host(declared()), inline=True))[0] == 0
    host.write("calls")
    status, output, errors = host.run(init_script(desired_host(declared()), inline=True))
    assert status == 0, errors
    assert "changed=0" in output
    assert "kubeadm" not in host.read("calls")


@needs_root
@pytest.mark.parametrize("others", [SECOND + THIRD, ""])
def test_the_host_that_made_the_cluster_leaves_etcd_if_others_stay(host: Host, others: str) -> None:
    host.write("members", FIRST + others)
    host.write("var/lib/gpu-cluster/cluster/effects", "member initialized cluster\n")
    if not others:
        host.write("silent")
    status, _, errors = host.run(init_script(desired_host(declared()), inline=True), "undo")
    assert status == 0, errors
    assert host.read("members") == (others or FIRST)
    assert "kubeadm reset" in host.read("calls")


@needs_root
def test_no_second_cluster_is_made_at_an_endpoint_that_answers(host: Host) -> None:
    (host.root / "etc/kubernetes/admin.conf").unlink()
    host.write("answers")
    status, _, errors = host.run(init_script(desired_host(declared()), inline=True))
    assert status == 1
    assert "a cluster that answers at 192.0.2.9:6443 already" in errors
    assert "kubeadm init" not in host.read("calls")
