"""Install kubelet, kubeadm and kubectl, and join a cluster with a token that stays secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running

TOKEN = "abcdef.0123456789abcdef"
HASH = f"sha256:{'0123456789abcdef' * 4}"
SEEN = "/run/simulated-kubeadm"


def declared(repository: dict[str, Any]) -> dict[str, Any]:
    join = {"endpoint": "192.0.2.1:6443", "caCertHashes": [HASH]}
    return {
        "kubernetesPackages": {"version": "1.34.4", "repository": repository, "join": join},
        "driver": {"source": "preinstalled"},
    }


def holders(host: Running) -> list[str]:
    """Return the persistent files on the host that contain the bootstrap token."""
    found = host.run(f"grep -rlF {TOKEN} /etc /var /root /home /opt 2>/dev/null").output
    return found.split()


def test_a_host_joins_once_and_leaves(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "debian")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        script = software.script(declared(repository), TOKEN)
        first = host.apply(script)
        assert (first.status, first.errors) == (0, "")
        assert TOKEN not in first.output
        configuration = json.loads(host.run(f"cat {SEEN}/configuration").output)
        assert configuration["apiVersion"] == "kubeadm.k8s.io/v1beta4"
        discovery = configuration["discovery"]["bootstrapToken"]
        assert discovery["token"] == TOKEN
        assert discovery["caCertHashes"] == [HASH]
        registration = configuration["nodeRegistration"]
        assert registration["criSocket"] == "unix:///var/run/containerd/containerd.sock"
        # kubeadm reads the token from a temporary file that only root can read. No argument and no
        # other file contains the token.
        assert TOKEN not in host.run(f"cat {SEEN}/arguments").output
        assert host.run(f"cat {SEEN}/mode").output.split()[1] == "0"
        assert holders(host) == []
        assert host.run("ls /run/gpu-cluster-prepare").status != 0
        host.run(f"rm -r {SEEN}")
        assert host.apply(script).output == "changed=0\n"
        assert not host.exists(SEEN)
        assert software.drift(host) == ()
        host.run("systemctl stop kubelet")
        assert software.drift(host) == ("kubelet is not active",)
        assert host.apply(script).status == 0
        undone = host.undo(script)
        assert undone.status == 0
        assert not host.exists("/etc/kubernetes/kubelet.conf")
        assert "the node object stays in the cluster" in undone.output


def test_a_host_has_joined_when_its_node_is_there(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "debian")
    host.run(f"mkdir -p {SEEN}; touch {SEEN}/late")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        assert host.apply(software.script(declared(repository), TOKEN)).status == 0
    assert not host.exists(f"{SEEN}/late")


def test_a_host_whose_containerd_has_cri_disabled_is_refused_before_it_joins(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "debian")
    # Docker's containerd package disables CRI by default (docker/containerd-packaging 6551934,
    # common/containerd.toml).
    host.write("/etc/containerd/config.toml", 'disabled_plugins = ["cri"]\n')
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        script = software.script(declared(repository), TOKEN)
        refused = host.apply(script)
        assert "found containerd with CRI disabled on a host that joins" in refused.errors
        assert "nothing was changed on this host" in refused.errors
        assert not host.exists(SEEN)
        host.write("/etc/containerd/config.toml", "version = 2\n")
        assert host.apply(script).status == 0
        # The script only checks the container engine's CRI before the host joins a cluster.
        host.write("/etc/containerd/config.toml", 'disabled_plugins = ["cri"]\n')
        assert host.apply(script).status == 0


def test_a_kubelet_is_expected_to_run_from_its_join_on(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "debian")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        sections = declared(repository)
        join = sections["kubernetesPackages"].pop("join")
        assert host.apply(software.script(sections)).status == 0
        state = "systemctl is-enabled kubelet; systemctl is-active kubelet"
        assert host.run(state).output == "enabled\ninactive\n"
        assert software.drift(host) == ()
        sections["kubernetesPackages"]["join"] = join
        assert host.apply(software.script(sections, TOKEN)).status == 0
        assert host.run(state).output == "enabled\nactive\n"
        host.run("systemctl stop kubelet")
        assert software.drift(host) == ("kubelet is not active",)


@pytest.mark.full
def test_a_refused_join_fails_without_the_token_in_its_words(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "debian")
    host.run(f"mkdir -p {SEEN}; touch {SEEN}/refuse")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        script = software.script(declared(repository), TOKEN)
        refused = host.apply(script)
        assert refused.status == 1
        assert "kubeadm join failed" in refused.errors
        assert TOKEN not in refused.output + refused.errors
        assert holders(host) == []
        host.run(f"rm {SEEN}/refuse")
        assert host.apply(script).status == 0
        assert host.exists("/etc/kubernetes/kubelet.conf")


@pytest.mark.full
def test_a_host_that_was_a_node_before_is_neither_joined_nor_reset(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "debian")
    host.write("/etc/kubernetes/kubelet.conf", "theirs\n")
    with software.serving("debian", catalogue.kubernetes("1.34.4")) as repository:
        script = software.script(declared(repository), TOKEN)
        assert host.apply(script).status == 0
        assert host.undo(script).status == 0
    assert host.read("/etc/kubernetes/kubelet.conf") == "theirs\n"


def test_a_control_plane_joins_nothing() -> None:
    sections = declared({})
    assert TOKEN not in software.script(sections, TOKEN, role="control-plane")
    assert "GC_JOIN=" not in software.script(sections, TOKEN, role="control-plane")


@pytest.mark.parametrize(("version", "api"), [("1.30.9", "v1beta3"), ("1.31.0", "v1beta4")])
def test_the_configuration_is_of_the_version_that_kubeadm_reads(version: str, api: str) -> None:
    sections = declared({})
    sections["kubernetesPackages"]["version"] = version
    assert f"kubeadm.k8s.io/{api}" in software.script(sections, TOKEN)
