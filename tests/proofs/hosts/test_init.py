"""Create a control plane with kubeadm init, join nodes to it, and remove both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.hosts.kubeadm.access import ACCESS, check_key
from gpu_cluster.hosts.kubeadm.scripts import access_script, init_script, join_script
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_rules.faults import ConfigError
from tests.desired_host import desired_host
from tests.proofs.hosts import software
from tests.proofs.hosts.initialized import COPIED, GATED, INIT, NETWORK, declared
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.full

SEEN = "/run/simulated-kubeadm"
TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
HASH = f"sha256:{'0123456789abcdef' * 4}"


def initialize(**init: Any) -> str:
    cluster = declared(**init)
    return init_script(desired_host(cluster, 0))


@pytest.fixture
def host(cluster: str, namespaces: None) -> Iterator[Running]:
    """Return a host with the Kubernetes packages but without a cluster."""
    host = software.start(cluster, "debian")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        sections = {"kubernetesPackages": {"version": "1.34.4", "repository": repository}}
        done = host.apply(software.script(sections, role="control-plane"))
        assert (done.status, done.errors) == (0, "")
        yield host


def configuration(host: Running) -> list[dict[str, Any]]:
    """Return the documents in the configuration file that was passed to kubeadm."""
    return [json.loads(text) for text in host.read(f"{SEEN}/configuration").split("\n---\n")]


def test_a_cluster_is_made_once_and_taken_down_to_the_byte(host: Running) -> None:
    before = software.lasting(host)
    script = initialize(podSubnet="10.5.0.0/16", skipPhases=["addon/coredns"])
    first = host.apply(script)
    assert (first.status, first.errors) == (0, "")
    initialization, cluster, kubelet = configuration(host)
    assert initialization["skipPhases"] == ["addon/coredns"]
    assert initialization["nodeRegistration"]["name"] == "gpu-1"
    assert cluster["controlPlaneEndpoint"] == "192.0.2.1:6443"
    assert cluster["networking"]["podSubnet"] == "10.5.0.0/16"
    assert kubelet["cgroupDriver"] == "systemd"
    # The bootstrap token is created on the host itself, so scripts, output and arguments don't
    # contain the token.
    (token,) = (entry["token"] for entry in initialization["bootstrapTokens"])
    assert TOKEN.fullmatch(token)
    assert token not in script + first.output + host.read(f"{SEEN}/arguments")
    host.run(f"rm -r {SEEN}; {NETWORK}")
    assert host.apply(script).output == "changed=0\n"
    assert not host.exists(SEEN)
    facts = asyncio.run(observe_hosts([host.declared], host.key, 30))[host.declared.name]
    assert "cluster" in facts.applied
    assert facts.drift == {}
    undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    left = differences(before, software.lasting(host))
    assert {path for path in left if path != COPIED} == set()


def test_an_init_that_was_killed_is_begun_again(host: Running) -> None:
    host.run(f"mkdir -p {SEEN}; touch {SEEN}/hang")
    script = initialize()
    killed = host.run("timeout -s KILL 5 sh -s -- apply", script)
    assert killed.status != 0
    assert host.exists("/etc/kubernetes/manifests/etcd.yaml")
    host.run(f"rm {SEEN}/hang")
    again = host.apply(script)
    assert (again.status, again.errors) == (0, "")
    assert "! an init that did not end is undone first" in again.output
    assert host.exists("/etc/kubernetes/admin.conf")


def test_a_refused_configuration_changes_nothing_that_undo_leaves(host: Running) -> None:
    before = software.lasting(host)
    script = initialize(clusterConfiguration={"unknownField": 1})
    refused = host.apply(script)
    assert "kubeadm refuses the configuration: error: strict decoding error" in refused.errors
    assert not host.exists("/etc/kubernetes/manifests/etcd.yaml")
    assert host.undo(script).status == 0
    assert differences(before, software.lasting(host)) == {}


def test_a_refusal_of_kubeadm_is_told_by_its_errors_without_its_advice(host: Running) -> None:
    host.write("/etc/kubernetes/bootstrap-kubelet.conf", "theirs\n")
    cluster = declared("gpu-worker")
    script = join_script(desired_host(cluster, 0), "abcdef.0123456789abcdef", (HASH,))
    refused = host.apply(script)
    assert "bootstrap-kubelet.conf already exists" in refused.errors
    assert "make a check non-fatal" not in refused.errors


@pytest.mark.parametrize(
    "path",
    ["kubernetes/admin.conf", "kubernetes/manifests/theirs.yaml", "../var/lib/etcd/member/wal"],
)
def test_a_cluster_that_is_there_is_neither_made_anew_nor_reset(host: Running, path: str) -> None:
    host.write(f"/etc/{path}", "theirs\n")
    script = initialize()
    refused = host.apply(script)
    assert refused.status == 1
    assert "of a cluster that this stack didn't make" in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert host.undo(script).status == 0
    assert host.read(f"/etc/{path}") == "theirs\n"


def test_another_configuration_is_refused_and_another_version_is_not(host: Running) -> None:
    script = initialize()
    assert host.apply(script).status == 0
    refused = host.apply(initialize(podSubnet="10.9.0.0/16"))
    assert "made with another configuration" in refused.errors
    assert host.apply(script.replace("v1.34.4", "v1.34.9")).output == "changed=0\n"


def test_the_access_is_the_same_token_each_time_and_the_kubeconfig(host: Running) -> None:
    cluster = declared()
    assert host.apply(init_script(desired_host(cluster, 0))).status == 0
    script = access_script(desired_host(cluster), ())
    first, second = host.apply(script), host.apply(script)
    assert (first.status, first.errors) == (0, "")
    access = ACCESS.read(first.output, "gpu-1", INIT["endpoint"])
    check_key(access.administrator)
    assert access.token == host.read("/var/lib/gpu-cluster/cluster/token").strip()
    assert first.output.endswith("\n" + host.read("/etc/kubernetes/admin.conf"))
    assert second.output == first.output
    assert not host.exists("/run/gpu-cluster-access")


def test_access_to_a_cluster_that_is_not_there_says_so(host: Running) -> None:
    cluster = declared()
    refused = host.apply(access_script(desired_host(cluster), ()))
    assert refused.status == 1
    assert "found no cluster that this stack has created on this host" in refused.errors


def test_a_host_joins_the_new_cluster_and_leaves_to_the_byte(host: Running) -> None:
    before = software.lasting(host)
    cluster = declared("gpu-worker", nodeRegistration={"ignorePreflightErrors": ["Swap"]})
    script = join_script(desired_host(cluster, 0), "abcdef.0123456789abcdef", (HASH,))
    first = host.apply(script)
    assert (first.status, first.errors) == (0, "")
    (joined,) = configuration(host)
    assert joined["discovery"]["bootstrapToken"]["apiServerEndpoint"] == "192.0.2.1:6443"
    assert joined["nodeRegistration"]["ignorePreflightErrors"] == ["Swap"]
    host.run(NETWORK)
    assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, software.lasting(host)) == {}


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ({"init": INIT}, "init with version None"),
        ({"init": INIT, "version": "1.30.9"}, "1.31 or later"),
        ({"init": {**INIT, "network": {}}, "version": "1.34.4"}, "neither manifest nor chart"),
        (
            {"init": {**INIT, "kubeletConfiguration": {"kind": "x"}}, "version": "1.34.4"},
            "take kind out",
        ),
        ({"init": GATED, "version": "1.37.2"}, "featureGates.SidecarContainers"),
    ],
)
def test_a_declaration_that_can_t_be_is_refused(packages: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        software.script({"kubernetesPackages": packages}, role="control-plane")
    assert says in str(refused.value)


def test_a_feature_gate_is_accepted_up_to_the_version_that_removes_it() -> None:
    software.script(
        {"kubernetesPackages": {"init": GATED, "version": "1.36.3"}}, role="control-plane"
    )
