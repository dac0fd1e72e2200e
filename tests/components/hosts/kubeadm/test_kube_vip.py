"""kube-vip on control-plane hosts: what it is told, and what stays of it.

kubectl, kubeadm and ip are fakes. The proof `make test-ha` runs the real programs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.hosts.kubeadm.scripts import init_script, member_script
from gpu_cluster.hosts.observed.probe import MARK
from gpu_cluster.hosts.script import FOLDER
from tests.components.hosts.kubeadm.faked_host import NOTHING, Host
from tests.desired_host import desired_host
from tests.fixtures.clusters import HOST_KEY, cluster

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the script requires root"),
    pytest.mark.skipif(not Path("/usr/bin/flock").exists(), reason="no flock"),
]

KUBEADM = r"""#!/bin/sh
# Like the real one: init writes the administrator's kubeconfig, reset empties the manifests.
printf '%s\n' "kubeadm $*" >>"$ROOT/calls"
manifests=$ROOT/etc/kubernetes/manifests
case $1 in
    init)
        cp "$manifests/kube-vip.yaml" "$ROOT/manifest-of-init"
        : >"$ROOT/etc/kubernetes/admin.conf" ;;
    reset) rm -f "$manifests"/* ;;
esac
"""
KUBECTL = r"""#!/bin/sh
case "$*" in
    *"get pod kube-vip-cp-"*)
        sed -n 's/^ *"gpu-cluster.applied": "\(.*\)"/\1 True/p' \
            "$ROOT/etc/kubernetes/manifests/kube-vip.yaml" ;;
    *"get nodes"* | *"/version"*) exit 1 ;;
esac
"""
IP = r"""#!/bin/sh
# `ip -o address show to ADDRESS` of iproute2 6.1 prints this line for an address that a host has.
case "$*" in
    "-o address show to "*)
        [ ! -e "$ROOT/address" ] ||
            echo "2: eno1    inet $(cat "$ROOT/address")/32 scope global deprecated eno1" ;;
    "address delete "*) printf '%s\n' "ip $*" >>"$ROOT/calls"; rm "$ROOT/address" ;;
esac
"""
ADDRESS = "192.0.2.9"
VIP = "etc/kubernetes/manifests/kube-vip.yaml"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    programs = {
        "kubectl": KUBECTL, "kubeadm": KUBEADM, "ip": IP, "systemctl": NOTHING, "sleep": NOTHING,
        "pidof": "#!/bin/sh\nexit 1\n",
    }  # fmt: skip
    return Host.make(tmp_path, programs)


def static_pod(host: Host, name: str = VIP) -> Any:
    """Return the static pod in a file of a host."""
    return json.loads(host.read(name))


def script(index: int = 0, kube_vip: Any = None, **init: Any) -> str:
    hosts = [
        {"name": f"cp-{n}", "role": "control-plane", "address": f"192.0.2.{n}", "hostKey": HOST_KEY}
        for n in (1, 2, 3)
    ]
    gpu = {"name": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY}
    given = {"endpoint": f"{ADDRESS}:6443", "network": {"manifest": "cni.yaml"}, **init}
    declared = cluster(
        pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
        hosts=[*hosts, gpu],
        kubernetesPackages={
            "version": "1.36.3",
            "init": given if kube_vip is None else {**given, "kubeVip": kube_vip},
        },
    )
    write = member_script if index else init_script
    return write(desired_host(declared, index), inline=True)


def mounted(pod: Any) -> str:
    (volume,) = pod["spec"]["volumes"]
    path: str = volume["hostPath"]["path"]
    return path


def environment(pod: Any) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_kube_vip_has_all_rights_only_until_the_cluster_is_made(host: Host) -> None:
    status, output, errors = host.run(script(kube_vip={}))
    assert status == 0, errors
    assert f"+ ran kube-vip with the address {ADDRESS}" in output
    assert mounted(static_pod(host, "manifest-of-init")) == "/etc/kubernetes/super-admin.conf"
    assert mounted(static_pod(host)) == "/etc/kubernetes/admin.conf"
    assert host.run(script(kube_vip={}))[1].rstrip().endswith("changed=0")


def test_kube_vip_announces_the_endpoint_and_asks_its_own_host(host: Host) -> None:
    assert host.run(script(kube_vip={"interface": "eno1"}))[0] == 0
    pod = static_pod(host)
    told = environment(pod)
    assert (told["address"], told["port"], told["vip_interface"]) == (ADDRESS, "6443", "eno1")
    assert told["kubernetes_addr"] == "https://kubernetes:6443"
    assert pod["spec"]["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["kubernetes"]}]
    assert pod["spec"]["containers"][0]["image"] == "ghcr.io/kube-vip/kube-vip:v1.2.2"


def test_a_host_that_joins_runs_kube_vip_after_the_join(host: Host) -> None:
    host.write("run/gpu-cluster-lent/join.yaml")
    status, _, errors = host.run(script(1, {}))
    assert status == 0, errors
    assert "kubeadm join" in host.read("calls")
    assert not (host.root / "manifest-of-init").exists()
    assert mounted(static_pod(host)) == "/etc/kubernetes/admin.conf"


def test_a_host_that_kept_the_address_of_a_lost_cluster_gives_it_up_before_it_joins(
    host: Host,
) -> None:
    host.write("run/gpu-cluster-lent/join.yaml")
    host.write("address", ADDRESS)
    assert host.run(script(1, {}))[0] == 0
    calls = host.read("calls")
    assert calls.index("ip address delete") < calls.index("kubeadm join")


def test_another_image_is_another_manifest(host: Host) -> None:
    assert host.run(script(kube_vip={}))[0] == 0
    image = "registry.example.com/kube-vip:v2"
    status, output, errors = host.run(script(kube_vip={"image": image}))
    assert status == 0, errors
    assert "+ ran kube-vip" in output
    assert static_pod(host)["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize("action", ["undo", "apply"])
def test_nothing_of_kube_vip_stays_when_it_is_no_longer_wanted(host: Host, action: str) -> None:
    assert host.run(script(kube_vip={}))[0] == 0
    host.write("address", ADDRESS)
    status, output, errors = host.run(script(kube_vip={} if action == "undo" else None), action)
    assert status == 0, errors
    assert f"- ran kube-vip with the address {ADDRESS}" in output
    assert not (host.root / VIP).exists()
    assert f"ip address delete {ADDRESS}/32 dev eno1" in host.read("calls")


def test_the_address_is_given_up_after_the_host_has_left_the_cluster(host: Host) -> None:
    assert host.run(script(kube_vip={}))[0] == 0
    host.write("address", ADDRESS)
    assert host.run(script(kube_vip={}), "undo")[0] == 0
    calls = host.read("calls")
    assert calls.index("kubeadm reset") < calls.index("ip address delete")


def test_a_manifest_that_somebody_changed_is_found_and_written_again(host: Host) -> None:
    assert host.run(script(kube_vip={}))[0] == 0
    lines = host.read("var/lib/gpu-cluster/cluster/expected").splitlines()
    (line,) = (each for each in lines if each.startswith("kube_vip "))
    part = (FOLDER / "library/kube_vip.sh").read_text().partition(MARK)[2]
    found = f"root=$GPU_CLUSTER_ROOT\n{part}\nfound_{line} || echo $drifted\n"
    assert host.run(found)[1] == ""
    host.write(VIP, "{}")
    assert host.run(found)[1] == "kube-vip's manifest\n"
    assert "+ ran kube-vip" in host.run(script(kube_vip={}))[1]
    assert host.run(found)[1] == ""
